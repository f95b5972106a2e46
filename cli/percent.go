package cli

import (
	"fmt"
	"strconv"
	"strings"
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
