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

// A placeError is an error with the place of its cause, as the file names it.
type placeError struct {
	place string
	err   error
}

func (e *placeError) Error() string { return e.place + ": " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

// At returns err with the place of its cause, such as cells[3]: an error that has a place
// already is inside of it.
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

// walk calls leaf for each text, number and list of numbers in v, and for the keys of maps,
// with the field of a struct that it belongs to. It returns the first error with its place.
func walk(v reflect.Value, of reflect.StructField, leaf func(of reflect.StructField, v reflect.Value) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return walk(v.Elem(), of, leaf)
	case reflect.Struct:
		if v.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]()) { // its reader has checked it
			return nil
		}
		for i := range v.NumField() {
			of := v.Type().Field(i)
			if err := At(keyOf(of), walk(v.Field(i), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice:
		default:
			return leaf(of, v) // one call for millions of numbers
		}
		for i := range v.Len() {
			if err := At(index("", i), walk(v.Index(i), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := leaf(nameField, it.Key()); err != nil {
				return err
			}
			if err := At(Printable(it.Key().String()), walk(it.Value(), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	}
	return leaf(of, v)
}

// nameField is the field of a name.
var nameField = reflect.StructField{Tag: `check:"name"`}

// keyOf returns the key of a field in the file; nothing if the field is embedded.
func keyOf(of reflect.StructField) string {
	key, _, _ := strings.Cut(of.Tag.Get("json"), ",")
	return key
}

// Limits of numbers in a result. They keep all sums within an int64.
const (
	maxDuration = int64(30 * 24 * time.Hour)
	maxCount    = int64(1) << 50
	maxSum      = maxDuration << 10 // of durations of many lanes
)

// Check reports the first value in v that no run could have written, by its place. The tag
// check of a field says what it may hold:
//
//	1..4096  a number in this range
//	positive a whole number above zero
//	signed   a whole number, also below zero
//	sum      a sum of durations of many lanes
//	name     a text that is not empty, of at most 4,096 bytes
//	a|b      one of these texts
//
// Without a tag, a number is at least 0, a whole number at most 2^50 and a duration at most
// 30 days. Each text is one line that can be printed, and each key of a map is a name.
func Check(v any) error {
	return walk(reflect.ValueOf(v), reflect.StructField{}, checkLeaf)
}

// CheckFlags reports the first number in v that is out of its range, by the flag in the tag
// flag of its field.
func CheckFlags(v any) error {
	s := reflect.ValueOf(v)
	for _, of := range reflect.VisibleFields(s.Type()) {
		flag, ok := of.Tag.Lookup("flag")
		low, high, ranged := rangeOf(of)
		if !ok || !ranged {
			continue
		}
		switch x := s.FieldByIndex(of.Index).Convert(reflect.TypeFor[float64]()).Float(); {
		case !(x >= low):
			return fmt.Errorf("%s must be at least %v, not %v", flag, low, s.FieldByIndex(of.Index))
		case x > high:
			return fmt.Errorf("%s must be at most %v, not %v", flag, int64(high), s.FieldByIndex(of.Index))
		}
	}
	return nil
}

// rangeOf returns the range that the tag of a field names, if it names one.
func rangeOf(of reflect.StructField) (low, high float64, ok bool) {
	from, to, ok := strings.Cut(of.Tag.Get("check"), "..")
	if !ok {
		return 0, 0, false
	}
	low, err := strconv.ParseFloat(from, 64)
	high, err2 := strconv.ParseFloat(to, 64)
	if err != nil || err2 != nil {
		panic("result: no range in the tag of " + of.Name)
	}
	return low, high, true
}

func checkLeaf(of reflect.StructField, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.String:
		return checkString(of, v.String())
	case v.CanFloat():
		low, high, ok := rangeOf(of)
		if !ok {
			high = math.MaxFloat64
		}
		if x := v.Float(); !(x >= low && x <= high) {
			return fmt.Errorf("%v: not from %v to %v", x, low, high)
		}
		return nil
	}
	low, high, what := wholeRange(of)
	if numbers, ok := v.Interface().([]int64); ok {
		for i, n := range numbers {
			if n < low || n > high {
				return Errorf(index("", i), "%d: %s", n, what)
			}
		}
	} else if v.CanInt() && (v.Int() < low || v.Int() > high) {
		return fmt.Errorf("%d: %s", v.Int(), what)
	}
	return nil
}

// wholeRange returns the range of a field of whole numbers, and what a number outside of it
// is not.
func wholeRange(of reflect.StructField) (low, high int64, what string) {
	if from, to, ok := rangeOf(of); ok {
		return int64(from), int64(to), fmt.Sprintf("not from %d to %d", int64(from), int64(to))
	}
	high, what = maxCount, "not a count of a run"
	if strings.HasSuffix(keyOf(of), "_ns") {
		high, what = maxDuration, "not a duration of a run"
	}
	switch of.Tag.Get("check") {
	case "positive":
		low = 1
	case "signed":
		low = -high
	case "sum":
		high = maxSum
	}
	return low, high, what
}

// maxName is the length of the longest name, in bytes.
const maxName = 4096

func checkString(of reflect.StructField, text string) error {
	switch tag := of.Tag.Get("check"); {
	case tag == "name" && text == "":
		return errors.New("empty")
	case tag == "name" && len(text) > maxName:
		return fmt.Errorf("%d bytes long", len(text))
	case strings.Contains(tag, "|"):
		if may := strings.Split(tag, "|"); !slices.Contains(may, text) {
			return fmt.Errorf("%.70q: must be %s", text, strings.TrimPrefix(strings.Join(may, " or "), " or "))
		}
	}
	return CheckText(text)
}

// CheckName reports a text that cannot be a name in a result.
func CheckName(text string) error {
	return checkString(nameField, text)
}

// maxText is the length of the longest text, in bytes.
const maxText = 1 << 16

// CheckText reports a text that must not reach a terminal, a page or a log.
func CheckText(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%d bytes long, and at most %d are read", len(text), maxText)
	}
	if err := legible.Check(text); err != nil {
		return fmt.Errorf("%.200q: %w", text, err)
	}
	return nil
}

// Printable returns a text in which each character that cannot be printed is escaped, cut
// to the longest text of a result.
func Printable(text string) string {
	text = legible.Text(text[:min(len(text), maxText)])
	if len(text) < maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
}

// MakePrintable makes each text in the struct that v points to printable, except in keys
// and values of maps.
func MakePrintable(v any) {
	_ = walk(reflect.ValueOf(v), reflect.StructField{}, func(_ reflect.StructField, v reflect.Value) error {
		if v.Kind() == reflect.String && v.CanSet() {
			v.SetString(Printable(v.String()))
		}
		return nil
	})
}
