package result

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"ipcbench/internal/legible"
)

// A placeError is an error with the place of the invalid value.
type placeError struct {
	place string
	err   error
}

func (e *placeError) Error() string { return e.place + ": " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

// At returns err with a place, such as cells[3], before any place that err already has. A nil
// error stays nil.
func At(place string, err error) error {
	e, ok := err.(*placeError)
	switch {
	case err == nil || place == "":
		return err
	case !ok:
		return &placeError{place, err}
	case e.place[0] != '[':
		place += "."
	}
	return &placeError{place + e.place, e.err}
}

// Errorf returns an error about the value at a place.
func Errorf(place, format string, args ...any) error {
	return &placeError{place, fmt.Errorf(format, args...)}
}

func index(place string, i int) string { return place + "[" + strconv.Itoa(i) + "]" }

// walk calls leaf for each text, number and list of numbers in v, with its struct field. For
// each key of a map, the field is nameField. It returns the first error, with its place.
func walk(v reflect.Value, field reflect.StructField, leaf func(reflect.StructField, reflect.Value) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return walk(v.Elem(), field, leaf)
	case reflect.Struct:
		if v.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]()) { // UnmarshalText has checked it
			return nil
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if err := At(keyOf(field), walk(v.Field(i), field, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice:
		default:
			return leaf(field, v) // one call for millions of numbers
		}
		for i := range v.Len() {
			if err := At(index("", i), walk(v.Index(i), field, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := leaf(nameField, it.Key()); err != nil {
				return err
			}
			if err := At(Printable(it.Key().String()), walk(it.Value(), field, leaf)); err != nil {
				return err
			}
		}
		return nil
	}
	return leaf(field, v)
}

// nameField stands for the field of a value that must be a name.
var nameField = reflect.StructField{Tag: `check:"name"`}

// keyOf returns the JSON key of a field, or "" if the field is embedded.
func keyOf(field reflect.StructField) string {
	key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return key
}

// Limits of whole numbers in a result, so small that no sum overflows an int64.
const (
	maxDuration = int64(30 * 24 * time.Hour)
	maxCount    = int64(1) << 50
	maxSum      = maxDuration << 10 // for sums of the durations of many lanes
)

// Check returns an error with the place of the first value in v that no run could have
// written. The struct tag check restricts a field:
//
//	1..4096  a number in this range
//	positive a whole number of at least 1
//	signed   a whole number, which may be negative
//	sum      a sum of durations of many lanes
//	name     a text of 1 to 4,096 bytes
//	a|b      one of these texts
//
// Without a tag, numbers must be at least 0, whole numbers at most 2^50 and durations at most
// 30 days. Every text must be one printable line, and every key of a map a name.
func Check(v any) error {
	return walk(reflect.ValueOf(v), reflect.StructField{}, checkLeaf)
}

// CheckFlags returns an error for the first number in the struct v that is outside the range in
// its tag check. The error names the flag in its tag flag. Fields without one are skipped.
func CheckFlags(v any) error {
	s := reflect.ValueOf(v)
	for _, field := range reflect.VisibleFields(s.Type()) {
		flag, ok := field.Tag.Lookup("flag")
		low, high, ranged := rangeOf(field)
		if !ok || !ranged {
			continue
		}
		number := s.FieldByIndex(field.Index)
		switch x := number.Convert(reflect.TypeFor[float64]()).Float(); {
		case !(x >= low):
			return fmt.Errorf("%s must be at least %v, not %v", flag, low, number)
		case x > high:
			return fmt.Errorf("%s must be at most %v, not %v", flag, int64(high), number)
		}
	}
	return nil
}

// rangeOf returns the range in the tag check of a field. ok is false if there is none.
func rangeOf(field reflect.StructField) (low, high float64, ok bool) {
	from, to, ok := strings.Cut(field.Tag.Get("check"), "..")
	if !ok {
		return 0, 0, false
	}
	low, err := strconv.ParseFloat(from, 64)
	high, err2 := strconv.ParseFloat(to, 64)
	if err != nil || err2 != nil {
		panic("result: invalid range in the tag of " + field.Name)
	}
	return low, high, true
}

func checkLeaf(field reflect.StructField, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.String:
		return checkString(field, v.String())
	case v.CanFloat():
		low, high, ok := rangeOf(field)
		if !ok {
			high = math.MaxFloat64
		}
		if x := v.Float(); !(x >= low && x <= high) {
			return fmt.Errorf("%v: must be from %v to %v", x, low, high)
		}
		return nil
	}
	low, high := wholeRange(field)
	if numbers, ok := v.Interface().([]int64); ok {
		for i, n := range numbers {
			if n < low || n > high {
				return Errorf(index("", i), "%d: must be from %d to %d", n, low, high)
			}
		}
	} else if v.CanInt() && (v.Int() < low || v.Int() > high) {
		return fmt.Errorf("%d: must be from %d to %d", v.Int(), low, high)
	}
	return nil
}

func wholeRange(field reflect.StructField) (low, high int64) {
	if from, to, ok := rangeOf(field); ok {
		return int64(from), int64(to)
	}
	high = maxCount
	if strings.HasSuffix(keyOf(field), "_ns") {
		high = maxDuration
	}
	switch field.Tag.Get("check") {
	case "positive":
		low = 1
	case "signed":
		low = -high
	case "sum":
		high = maxSum
	}
	return low, high
}

// maxName is the maximum length of a name, in bytes.
const maxName = 4096

func checkString(field reflect.StructField, text string) error {
	switch tag := field.Tag.Get("check"); {
	case tag == "name" && text == "":
		return errors.New("empty")
	case tag == "name" && len(text) > maxName:
		return fmt.Errorf("%d bytes long: must be at most %d", len(text), maxName)
	case strings.Contains(tag, "|"):
		if may := strings.Split(tag, "|"); !slices.Contains(may, text) {
			return fmt.Errorf("%.70q: must be %s", text, strings.TrimPrefix(strings.Join(may, " or "), " or "))
		}
	}
	return CheckText(text)
}

// CheckName returns an error unless text is one printable line of 1 to 4,096 bytes.
func CheckName(text string) error {
	return checkString(nameField, text)
}

// maxText is the maximum length of a text, in bytes.
const maxText = 1 << 16

// CheckText returns an error unless text is one printable line of at most 65,536 bytes: other
// texts might control a terminal, or corrupt a page or a log.
func CheckText(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%d bytes long: must be at most %d", len(text), maxText)
	}
	if err := legible.Check(text); err != nil {
		return fmt.Errorf("%.200q: %w", text, err)
	}
	return nil
}

// Printable returns text with each unprintable character escaped, cut to the maximum length
// of a text in a result.
func Printable(text string) string {
	text = legible.Text(text[:min(len(text), maxText)])
	if len(text) < maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
}

// MakePrintable applies [Printable] to each text in the struct that v points to, except keys
// and values of maps.
func MakePrintable(v any) {
	_ = walk(reflect.ValueOf(v), reflect.StructField{}, func(_ reflect.StructField, v reflect.Value) error {
		if v.Kind() == reflect.String && v.CanSet() {
			v.SetString(Printable(v.String()))
		}
		return nil
	})
}
