package cli

import (
	"errors"
	"os"
	"slices"

	"ipcbench/bench"
	"ipcbench/internal/link"
	"ipcbench/transports/driver"
)

// linkAxis gives cells each of the rates: over TCP, if they have a network, and once,
// without a link, if they have none.
func linkAxis(rates []string) making {
	return func(c bench.Spec, text string) ([]bench.Spec, error) {
		r, err := link.Parse(text)
		switch {
		case err != nil:
			return nil, err
		case !bench.Networked(c.Variant) && text != rates[0]:
			return nil, nil
		case bench.Networked(c.Variant) && r != link.Rate{}:
			c.Link, c.Variant = r, with(c.Variant, "", driver.Settings{"network": "tcp"})
		}
		return []bench.Spec{c}, nil
	}
}

// overLink reports why --link has no effect on the cells.
func (f *cellFlags) overLink(cells []bench.Spec) error {
	if !slices.ContainsFunc(f.links, func(text string) bool { return text != link.Rate{}.String() }) {
		return nil
	}
	return overTCP("--link", "a Unix socket is on no link", f.transports, slices.ContainsFunc(cells, func(c bench.Spec) bool { return bench.Networked(c.Variant) }))
}

// enter has the program run again where it has a network of its own, if cells are on
// links and that has not happened, and ends this process with that one.
func enter(cells []bench.Spec) error {
	rates := bench.Links(cells)
	if len(rates) > 0 && !link.Inside() {
		code, err := link.Enter()
		if err != nil {
			return linkError(err)
		}
		os.Exit(code)
	}
	for _, r := range rates { // all can be made before the first is measured
		if err := link.Set(r); err != nil {
			return linkError(err)
		}
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
