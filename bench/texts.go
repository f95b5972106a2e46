package bench

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ipcbench/internal/legible"
)

// A fieldError is what is wrong with a field of a result.
type fieldError struct {
	field string // as it stands in the file
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// within adds the name of what the field is a part of.
func within(outer string, err error) error {
	e, ok := err.(*fieldError)
	switch {
	case err == nil || outer == "":
		return err
	case !ok:
		return &fieldError{outer, err}
	case e.field[0] != '[':
		outer += "."
	}
	e.field = outer + e.field
	return e
}

// walk calls leaf for every text and number in v, the keys of maps and slices of
// numbers included, with the field of a struct that it belongs to. It returns the
// first error by the place of its cause.
func walk(v reflect.Value, of reflect.StructField, leaf func(of reflect.StructField, v reflect.Value) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return walk(v.Elem(), of, leaf)
		}
		return nil
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range v.NumField() {
			of := v.Type().Field(i)
			if err := within(fieldName(of), walk(v.Field(i), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice:
		default:
			return leaf(of, v) // of numbers, of which there are millions
		}
		for i := range v.Len() {
			if err := within("["+strconv.Itoa(i)+"]", walk(v.Index(i), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := leaf(of, it.Key()); err != nil {
				return err
			}
			if err := within(it.Key().String(), walk(it.Value(), of, leaf)); err != nil {
				return err
			}
		}
		return nil
	}
	return leaf(of, v)
}

// fieldName is the name of a field in the file; none of one that is embedded.
func fieldName(of reflect.StructField) string {
	name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
	return name
}

// texts checks every string in v and returns the first that must not reach a
// terminal, a page or a log, by its field. With fix, it is replaced instead
// wherever it can be set, with [printable].
func texts(v any, fix bool) error {
	return walk(reflect.ValueOf(v), reflect.StructField{}, func(_ reflect.StructField, v reflect.Value) error {
		if v.Kind() != reflect.String {
			return nil
		}
		err := checkText(v.String())
		if err != nil && fix && v.CanSet() {
			v.SetString(printable(v.String()))
			return nil
		}
		return err
	})
}

// Limits beyond which a number in a result is not believed. They keep all sums
// within an int64.
const (
	maxDuration = int64(30 * 24 * time.Hour)
	maxCount    = int64(1) << 50
	maxSum      = maxDuration << 10 // of what many lanes spend at the same time
)

// amounts checks every whole number in v: durations, whose fields end in _ns, and
// counts. A field with the tag check:"signed" may be below zero; one with check:"sum"
// may be as large as what many lanes spend.
func amounts(v any) error {
	return walk(reflect.ValueOf(v), reflect.StructField{}, func(of reflect.StructField, v reflect.Value) error {
		least, high, text := int64(0), maxCount, "no count of a run"
		if strings.HasSuffix(fieldName(of), "_ns") {
			high, text = maxDuration, "no duration of a run"
		}
		switch of.Tag.Get("check") {
		case "signed":
			least = -high
		case "sum":
			high = maxSum
		}
		if numbers, ok := v.Interface().([]int64); ok {
			for i, n := range numbers {
				if n < least || n > high {
					return &fieldError{"[" + strconv.Itoa(i) + "]", fmt.Errorf("%d: %s", n, text)}
				}
			}
		} else if v.CanInt() && (v.Int() < least || v.Int() > high) {
			return fmt.Errorf("%d: %s", v.Int(), text)
		}
		return nil
	})
}

// maxText is the length of a text that is not read any more, in bytes.
const maxText = 1 << 16

// checkText says what is wrong with a text that reports show.
func checkText(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%d bytes long: want at most %d", len(text), maxText)
	}
	if err := legible.Check(text); err != nil {
		return fmt.Errorf("%.200q: %w", text, err)
	}
	return nil
}

// printable replaces what cannot be printed by its escape, and cuts what is too
// long.
func printable(text string) string {
	text = legible.Text(text[:min(len(text), maxText)])
	if len(text) < maxText {
		return text
	}
	text = text[:maxText-len("…")]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// oneLine joins the lines of a text, such as the error of a process with what it
// wrote to stderr.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), "\t", " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
