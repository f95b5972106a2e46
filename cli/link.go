package cli

import (
	"errors"
	"os"
	"slices"

	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/transports/driver"
)

// linkAxis combines cells with the link rates. Cells that can use TCP get one cell per rate;
// others are measured once, without a link.
func linkAxis(rates []string) expander {
	return func(c session.Spec, text string) ([]session.Spec, error) {
		r, err := link.Parse(text)
		switch {
		case err != nil:
			return nil, err
		case !session.Networked(c.Variant) && text != rates[0]:
			return nil, nil
		case session.Networked(c.Variant) && r != link.Rate{}:
			c.Link, c.Variant = r, with(c.Variant, "", driver.Settings{"network": "tcp"})
		}
		return []session.Spec{c}, nil
	}
}

// overLink returns an error if --link has no effect on any cell.
func (f *cellFlags) overLink(cells []session.Spec) error {
	if !slices.ContainsFunc(f.links, func(text string) bool { return text != link.Rate{}.String() }) {
		return nil
	}
	return overTCP("--link", "network=unix cannot be combined with --link", f.transports, slices.ContainsFunc(cells, func(c session.Spec) bool { return session.Networked(c.Variant) }))
}

// enter restarts the program in its own network namespace, if cells are on links and it is not
// inside one yet. Then this process ends with the exit code of the new one. Inside, it tries
// all rates.
func enter(cells []session.Spec) error {
	rates := session.Links(cells)
	if len(rates) > 0 && !link.Inside() {
		code, err := link.Enter()
		if err != nil {
			return linkError(err)
		}
		os.Exit(code)
	}
	for _, r := range rates { // fail before measuring if a rate is impossible
		if err := link.Set(r); err != nil {
			return linkError(err)
		}
	}
	return nil
}

// linkError adds the fix that package link suggests.
func linkError(err error) error {
	if refused := (*link.Error)(nil); errors.As(err, &refused) {
		return hinted{usagef("--link: %w", err), refused.Fix}
	}
	return usagef("--link: %w", err)
}
