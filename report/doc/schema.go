package doc

import (
	"cmp"
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// schema is a part of a JSON Schema.
type schema = map[string]any

// Schema returns a JSON Schema (draft 2020-12) for the output of [Document.JSON] for documents
// with these tables, whatever their rows. A member of head that is not zero is a constant.
func (d Document) Schema(head any, always ...string) map[string]any {
	defs := definitions{}
	s := defs.object(reflect.ValueOf(head))
	for _, t := range d.tables() {
		s["properties"].(schema)[t.Key] = schema{"description": "A row is " + t.Help + ".", "type": "array", "items": t.schema(defs)}
	}
	s["required"] = append(s["required"].([]string), always...)
	s["$schema"], s["$defs"] = "https://json-schema.org/draft/2020-12/schema", defs
	return s
}

// schema returns the schema of a row.
func (t Table) schema(defs definitions) schema {
	members, required := schema{}, []string{}
	value := schema{"anyOf": []schema{defs.of(reflect.TypeFor[number](), ""), defs.of(reflect.TypeFor[estimate](), "")}}
	for i, col := range t.Columns {
		switch {
		case col.Key == "-":
			continue
		case col.List:
			members[col.key()] = schema{"type": "array", "items": schema{"type": "string"}}
		case col.Unit == "":
			members[col.key()] = schema{"type": "string"}
		case i < t.keys():
			members[col.key()] = schema{"type": "number"}
		default:
			members[col.key()] = value
		}
		if col.Always {
			required = append(required, col.key())
		}
	}
	more := map[bool]any{false: false, true: value}[t.More]
	return schema{"type": "object", "properties": members, "required": required, "additionalProperties": more}
}

// definitions has the schemas of structs, by the names of their types.
type definitions schema

// of returns the schema of a type, for a field with the tag check. If that is a|b, a text must
// be a or b.
func (d definitions) of(t reflect.Type, check string) schema {
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[number]():
		return schema{"type": []string{"number", "null"}}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return schema{"type": "string"}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.UnmarshalerFrom]()): // the type accepts and drops members of older builds
		return schema{}
	case k == reflect.Pointer:
		return schema{"anyOf": []schema{d.of(t.Elem(), check), {"type": "null"}}}
	case k == reflect.Slice:
		return schema{"type": []string{"array", "null"}, "items": d.of(t.Elem(), check)}
	case k == reflect.Map:
		return schema{"type": []string{"object", "null"}, "additionalProperties": d.of(t.Elem(), check)}
	case k == reflect.Struct:
		d[t.String()] = d.object(reflect.Zero(t))
		return schema{"$ref": "#/$defs/" + t.String()}
	case k == reflect.String && strings.Contains(check, "|"):
		return schema{"enum": strings.Split(check, "|")}
	default:
		return schema{"type": cmp.Or(map[string]string{"string": "string", "bool": "boolean", "float64": "number"}[k.String()], "integer")}
	}
}

// object returns the schema of a struct.
func (d definitions) object(v reflect.Value) schema {
	members, required := schema{}, []string{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch value := v.FieldByIndex(f.Index); {
		case key == "" || key == "-":
			continue
		case !value.IsZero():
			members[key] = schema{"const": value.Interface()}
		default:
			members[key] = d.of(f.Type, f.Tag.Get("check"))
		}
		if options == "" {
			required = append(required, key)
		}
	}
	return schema{"type": "object", "properties": members, "required": required, "additionalProperties": false}
}
