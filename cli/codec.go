package cli

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/codec"
	"ipcbench/tensor"
	"ipcbench/transports"
)

// codecAxis gives cells each of the codecs. The usual one alone leaves them theirs.
func codecAxis(codecs []string) making {
	usual := transports.CodecSetting().Default
	return one(func(c *bench.Spec, text string) error {
		if len(codecs) == 1 && text == usual {
			return nil
		}
		if c.Variant.Codec() != nil {
			return fmt.Errorf("%s: %s of --transport has a codec already: want one of the two", text, c.Variant)
		}
		p, err := codec.Parse(text)
		if err != nil {
			return misspelt(text, usagef("--%w", err)) // which begins with "codec: "
		}
		settings := maps.Clone(c.Variant.Settings)
		settings[transports.CodecSetting().Name] = p.String()
		c.Variant, err = transports.NewVariant(c.Variant.Transport, settings)
		return err
	})
}

// misspelt adds to the error of a codec's text the stage that was meant, if the first that
// is no name nearly is one.
func misspelt(text string, err error) error {
	names := each(codec.Names(), stageOf)
	for stage := range strings.SplitSeq(text, "+") {
		if name := stageOf(stage); !slices.Contains(names, name) {
			return hinted{err, meant("", name, names, "ipcbench list transports")}
		}
	}
	return hinted{err, "ipcbench list transports"}
}

// stageOf returns the name of a stage, NAME or NAME=VALUE.
func stageOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

// lossless checks that no codec of the cells loses anything of a tensor whose name
// matches one of the patterns.
func lossless(patterns []string, cells []bench.Spec) error {
	for _, pattern := range patterns {
		found := false
		for _, c := range cells {
			for _, l := range []*tensor.Layout{c.Model.Layout, c.Up.Layout} {
				for _, s := range l.Specs() {
					ok, err := path.Match(pattern, s.Name)
					if err != nil {
						return usagef("--require-lossless %s: %w: want a pattern such as *.bias", pattern, err)
					}
					found = found || ok
					if p := c.Variant.Codec(); ok && p.Lossy() && p.Takes(s) == nil {
						return hinted{usagef("--require-lossless %s: codec %s of %s loses bits of tensor %s of %s", pattern, p, c.Variant, s.Name, c.Model.Name),
							"choose another pattern, or a codec that loses nothing"}
					}
				}
			}
		}
		if !found {
			return usagef("--require-lossless %s: no tensor has such a name", pattern)
		}
	}
	return nil
}
