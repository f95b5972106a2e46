package result

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxPlace is the length at which the place in an error is cut, in bytes.
const maxPlace = 100

// placeOf formats a pointer for errors, such as cells[3].blocks[0].round_ns[7]. It makes names
// printable, because they come from the file.
func placeOf(p jsontext.Pointer) string {
	var place strings.Builder
	for name := range p.Tokens() {
		switch {
		case place.Len() > maxPlace:
			return strings.ToValidUTF8(place.String()[:maxPlace], "") + "…"
		case name != "" && strings.Trim(name, "0123456789") == "":
			place.WriteString("[" + name + "]")
			continue
		case place.Len() > 0:
			place.WriteByte('.')
		}
		place.WriteString(Printable(name[:min(len(name), maxPlace)]))
	}
	return place.String()
}

// DescribeJSONError converts an error of package json to one with the place and the problem, for users
// who do not know Go. It returns other errors as they are.
func DescribeJSONError(err error) error {
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return atPlace(syntax)
	case !errors.As(err, &wrong):
		return err
	}
	place := placeOf(wrong.JSONPointer)
	switch {
	case errors.Is(wrong.Err, json.ErrUnknownName):
		name := wrong.JSONPointer.LastToken()
		return At(placeOf(wrong.JSONPointer.Parent()), fmt.Errorf("unknown field %.60q", name))
	case wrong.Err != nil && wrong.JSONKind != '0':
		return At(place, wrong.Err)
	}
	kind := map[jsontext.Kind]string{
		'n': "null", 't': "true", 'f': "false", '"': "string", '0': "number", '{': "object", '[': "array",
	}[wrong.JSONKind]
	if wrong.JSONValue != nil { // for example, a number that is too large
		kind = fmt.Sprintf("%s %.40s", kind, Printable(string(wrong.JSONValue)))
	}
	return At(place, fmt.Errorf("must be %v, not JSON %s", wrong.GoType, kind))
}

// atPlace returns an error that states where a text is not valid JSON.
func atPlace(e *jsontext.SyntacticError) error {
	place := placeOf(e.JSONPointer)
	switch {
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s: duplicate key", place)
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return fmt.Errorf("truncated: ends after %d bytes within %s", e.ByteOffset, cmp.Or(place, "the text"))
	}
	return fmt.Errorf("%s: not JSON at byte %d: %w", cmp.Or(place, "the text"), e.ByteOffset, e.Err)
}
