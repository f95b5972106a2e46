package machine

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// A Difference is one property in which two environments, or two runs, differ.
type Difference struct{ What, Base, Head string }

// String returns the difference as a clause.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s instead of %s", d.What, d.Head, d.Base)
}

// Diff returns the differences between two environments that matter for a comparison.
// It compares fields with a tag `diff`, which names the property. A tag `nothing` is the
// text of a zero value; if that is "not recorded", a zero value is not compared. A tag
// `near` marks sizes that the kernel changes a little from boot to boot.
//
// Build, time and values that change within minutes are not compared.
func Diff(a, b Environment) []Difference {
	return diff(reflect.ValueOf(a), reflect.ValueOf(b))
}

func diff(a, b reflect.Value) []Difference {
	var all []Difference
	for i := range a.NumField() {
		tag, x, y := a.Type().Field(i).Tag, a.Field(i), b.Field(i)
		switch what := tag.Get("diff"); {
		case what == "" || tag.Get("nothing") == notRecorded && (x.IsZero() || y.IsZero()):
		case what == "each field":
			all = append(all, diff(pointedTo(x), pointedTo(y))...)
		default:
			p, q := written(x, tag), written(y, tag)
			if p != q && !(tag.Get("near") != "" && near(x.Interface(), y.Interface())) {
				all = append(all, Difference{what, p, q})
			}
		}
	}
	return all
}

const notRecorded = "not recorded"

// pointedTo returns the element of pointer v, or a zero value if v is nil.
func pointedTo(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// written returns the text of field v.
func written(v reflect.Value, tag reflect.StructTag) string {
	if v.IsZero() && (v.Kind() == reflect.String || v.Kind() == reflect.Pointer) {
		return cmp.Or(tag.Get("nothing"), "none")
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case int64:
		if tag.Get("near") != "" {
			return Size(x)
		}
		return bytes(x)
	case float64:
		return fmt.Sprintf("%.4g", x)
	case Space:
		if tag.Get("near") == "" {
			return x.FileSystem
		}
	}
	return fmt.Sprint(v)
}

// near reports whether two sizes differ by at most 1 %, because the kernel reserves a
// little more or less memory from boot to boot.
func near(x, y any) bool {
	switch x := x.(type) {
	case int64:
		y := y.(int64)
		return max(x-y, y-x) <= max(x, y)/100
	case *Space:
		y := y.(*Space)
		return x != nil && y != nil && x.FileSystem == y.FileSystem && near(x.Size, y.Size)
	}
	return false
}

// String describes the network in one line.
func (l Link) String() string {
	text := fmt.Sprintf("namespaces of its own (%s), packets of %s, %s", l.Namespaces, bytes(int64(l.MTU)), l.Qdisc)
	if l.Congestion != "" {
		text += ", " + l.Congestion
	}
	for _, rate := range slices.Sorted(maps.Keys(l.Bursts)) {
		text += fmt.Sprintf(", bursts of %s at %s", bytes(l.Bursts[rate]), rate)
	}
	for _, d := range l.Delays {
		text += fmt.Sprintf(", %s by %s with packets of %s and %s", d.Link, d.By, bytes(int64(d.MTU)), d.Congestion)
	}
	return text
}

// String returns size and type.
func (s Space) String() string { return Size(s.Size) + " (" + s.FileSystem + ")" }

var units = []struct {
	size int64
	name string
}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}}

// Size formats n bytes with four digits, enough to distinguish sizes that are not near.
func Size(n int64) string {
	for _, u := range units {
		if n >= u.size {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// bytes formats n bytes exactly, so that different sizes have different texts.
func bytes(n int64) string {
	for _, u := range units {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
