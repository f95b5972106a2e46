package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ipcbench/bench/place"
	"ipcbench/transports/endpoint"
)

// refused returns what is wrong with the value of a flag. For flags that packages of Go parse, it
// says what the value must be.
func refused(err *pflag.InvalidValueError) error {
	must := map[string]string{"bool": "true or false", "int": "a whole number", "uint64": "a whole number of at least 0", "duration": "a time with a unit, such as 5s"}
	if what := must[err.GetFlag().Value.Type()]; what != "" {
		return fmt.Errorf("must be %s, not %q", what, err.GetValue())
	}
	return err.Unwrap()
}

// percent is the value of a flag for a fraction of 1, such as 5% or 0.05.
type percent float64

func (p *percent) Set(text string) error {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		x /= 100
	}
	switch {
	case err != nil || !(x >= 0) || x > 100:
		return fmt.Errorf("must be a share such as 5%% or 0.05")
	case !isPercent && x >= 1:
		return fmt.Errorf("%s is a share of %g %%: write %s%% if you mean that", text, x*100, text)
	}
	*p = percent(x)
	return nil
}

func (p percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', 4, 64) + "%" }
func (p percent) Type() string   { return "share" }

// placeList is the value of --place.
type placeList struct {
	place.Rule
	given []string
}

func (p *placeList) Type() string   { return "LIST" }
func (p *placeList) String() string { return strings.Join(p.given, ",") }

// places matches valid values of --place.
var places = regexp.MustCompile(`^(server|(server,)?(fill|spread)|(fill|spread),server)$`)

func (p *placeList) Set(text string) error {
	if !places.MatchString(text) {
		return fmt.Errorf("must be spread or fill, with or without server, not %q", text)
	}
	p.given = strings.Split(text, ",")
	p.Server, p.Fill = slices.Contains(p.given, "server"), slices.Contains(p.given, "fill")
	return nil
}

// portRange is the value of a flag for ports, such as 7000-7010 or 7000.
type portRange struct{ endpoint.Ports }

func (p *portRange) String() string {
	if p.Last == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

func (p *portRange) Type() string { return "FIRST-LAST" }

func (p *portRange) Set(text string) error {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a == 0 || b < a {
		return errors.New("must be FIRST-LAST, two ports from 1 to 65535, the lower one first")
	}
	p.Ports = endpoint.Ports{First: uint16(a), Last: uint16(b)}
	return nil
}
