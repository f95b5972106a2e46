package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench"
	"ipcbench/transports/driver"
)

// percent is a flag's value: a share of 1, written as 5% or 0.05.
type percent float64

func (p *percent) Set(text string) error {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		x /= 100
	}
	switch {
	case err != nil || !(x >= 0) || x > 100:
		return fmt.Errorf("want a share such as 5%% or 0.05")
	case !isPercent && x >= 1:
		return fmt.Errorf("%s is a share of %g %%: write %s%% if that is meant", text, x*100, text)
	}
	*p = percent(x)
	return nil
}

func (p percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', 4, 64) + "%" }
func (p percent) Type() string   { return "share" }

// placeList is the value of --place.
type placeList struct {
	bench.Place
	given []string
}

func (p *placeList) Type() string   { return "LIST" }
func (p *placeList) String() string { return strings.Join(p.given, ",") }

// Set implements pflag.Value.
func (p *placeList) Set(text string) error {
	*p = placeList{given: strings.Split(text, ",")}
	for i, word := range p.given {
		switch {
		case word != "server" && word != "fill" && word != "spread":
			return fmt.Errorf("%q: want server, fill or spread", word)
		case slices.Contains(p.given[:i], word):
			return fmt.Errorf("%s stands there twice", word)
		}
	}
	p.Server, p.Fill = slices.Contains(p.given, "server"), slices.Contains(p.given, "fill")
	if p.Fill && slices.Contains(p.given, "spread") {
		return errors.New("fill and spread are given: want one of them")
	}
	return nil
}

// portRange is the value of a flag that names ports: 7000-7010, or 7000.
type portRange struct{ driver.Ports }

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
		return errors.New("want two ports from 1 to 65535 with a - between them, the lower one first")
	}
	p.Ports = driver.Ports{First: uint16(a), Last: uint16(b)}
	return nil
}
