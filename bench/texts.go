package bench

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ipcbench/reexec"
)

// maxText is the length of a text that is not read any more, in bytes.
const maxText = 1 << 16

// A textError is a text that must not reach a terminal, a page or a log.
type textError struct {
	field string // as it stands in the file
	err   error
}

func (e *textError) Error() string { return e.field + ": " + e.err.Error() }
func (e *textError) Unwrap() error { return e.err }

// within adds the name of what the text is a part of.
func (e *textError) within(outer string) error {
	if e.field != "" && e.field[0] != '[' {
		outer += "."
	}
	e.field = outer + e.field
	return e
}

// texts checks every string in v, the keys of maps included, and returns the
// first that holds what cannot be printed, by its field. With fix, it is replaced
// instead wherever it can be set, with [printable].
func texts(v reflect.Value, fix bool) error {
	inside := func(outer string, v reflect.Value) error {
		switch err := texts(v, fix).(type) {
		case nil:
			return nil
		case *textError:
			return err.within(outer)
		default:
			return (&textError{err: err}).within(outer)
		}
	}
	switch v.Kind() {
	case reflect.String:
		err := checkText(v.String())
		if err != nil && fix && v.CanSet() {
			v.SetString(printable(v.String()))
			return nil
		}
		return err
	case reflect.Pointer:
		if !v.IsNil() {
			return texts(v.Elem(), fix)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if err := inside(name, v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer:
		default:
			return nil // numbers, of which there are millions
		}
		for i := range v.Len() {
			if err := inside("["+strconv.Itoa(i)+"]", v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key := it.Key().String()
			if err := checkText(key); err != nil {
				return err
			}
			if err := inside(key, it.Value()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkText says what is wrong with a text that reports show.
func checkText(text string) error {
	switch {
	case len(text) > maxText:
		return fmt.Errorf("%d bytes long: want at most %d", len(text), maxText)
	case !utf8.ValidString(text):
		return fmt.Errorf("%.200q: not UTF-8", text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%.200q: holds what cannot be printed", text)
		}
	}
	return nil
}

// printable replaces what cannot be printed and cuts what is too long.
func printable(text string) string {
	text = reexec.Printable(text)
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
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
