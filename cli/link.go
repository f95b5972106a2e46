package cli

import (
	"errors"
	"os"
	"slices"

	"ipcbench/bench"
	"ipcbench/link"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// rates returns what --link asks for; one that is none, if it is not there.
func (f *cellFlags) rates() ([]link.Rate, error) {
	if f.links == nil {
		return []link.Rate{{}}, nil
	}
	if len(f.links) == 0 {
		return nil, usagef("--link: the list is empty: want rates such as 100Mbit with commas between them, or no --link")
	}
	var all []link.Rate
	for _, text := range f.links {
		r, err := link.Parse(text)
		if err != nil {
			return nil, usagef("--link: %w", err)
		}
		if slices.Contains(all, r) {
			return nil, usagef("--link %v stands there twice: leave one out", r)
		}
		all = append(all, r)
	}
	return all, nil
}

// onLink reports whether --link asks for any link. What it asks for is right.
func (f *cellFlags) onLink() bool {
	rates, _ := f.rates()
	return slices.ContainsFunc(rates, func(r link.Rate) bool { return r != link.Rate{} })
}

// A route is a variant on a link.
type route struct {
	transports.Variant
	rate link.Rate
}

// linked returns the variants with every rate: over TCP, where they have a network,
// and once, without a link, where they have none. texts are what they were made of.
func linked(variants []transports.Variant, texts []string, rates []link.Rate) (routes []route, err error) {
	onLink := slices.ContainsFunc(rates, func(r link.Rate) bool { return r != link.Rate{} })
	has := false
	for _, v := range variants {
		if !bench.Networked(v) {
			routes = append(routes, route{Variant: v})
			continue
		}
		has = true
		for _, r := range rates {
			of := route{v, r}
			if r != (link.Rate{}) {
				of.Variant = with(v, "", driver.Settings{"network": "tcp"})
			}
			if !slices.ContainsFunc(routes, func(o route) bool { return o.String() == of.String() && o.rate == r }) { // http and http:network=tcp are the same there
				routes = append(routes, of)
			}
		}
	}
	if !onLink {
		return routes, nil
	}
	return routes, overTCP("--link", "a Unix socket is on no link", texts, has)
}

// enter has the program run again where it has a network of its own, if that is asked
// for and has not happened, and ends this process with that one.
func (f *cellFlags) enter() error {
	if !f.onLink() {
		return nil
	}
	if !link.Inside() {
		code, err := link.Enter()
		if err != nil {
			return linkError(err)
		}
		os.Exit(code)
	}
	rates, err := f.rates()
	for _, r := range rates { // all can be made before the first is measured
		if err == nil {
			err = link.Set(r)
		}
	}
	if err != nil {
		return linkError(err)
	}
	return nil
}

// linkError says what to try.
func linkError(err error) error {
	if refused := (*link.Error)(nil); errors.As(err, &refused) {
		return hinted{usagef("--link: %w", err), refused.Mend}
	}
	return usagef("--link: %w", err)
}
