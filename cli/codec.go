package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"ipcbench/bench/session"
	"ipcbench/codec"
	"ipcbench/internal/near"
	"ipcbench/report/doc"
	"ipcbench/tensor"
	"ipcbench/transports"
)

// codecAxis combines cells with the codecs. If the default codec is the only entry, variants
// keep the codec of their own setting.
func codecAxis(codecs []string) expander {
	usual := transports.CodecSetting().Default
	return one(func(c *session.Spec, text string) error {
		if len(codecs) == 1 && text == usual {
			return nil
		}
		if c.Variant.Codec() != nil {
			return fmt.Errorf("%s: %s of --transport already has a codec: remove one of the two", text, c.Variant)
		}
		p, err := codec.Parse(text)
		if err != nil {
			return suggestStage(text, usagef("--%w", err)) // the error begins with "codec: "
		}
		settings := maps.Clone(c.Variant.Settings)
		settings[transports.CodecSetting().Name] = p.String()
		c.Variant, err = transports.NewVariant(c.Variant.Subject, settings)
		return err
	})
}

// suggestStage adds a hint to the error of a codec: the name that its first unknown stage
// resembles.
func suggestStage(text string, err error) error {
	names := doc.Each(codec.Names(), stageOf)
	for stage := range strings.SplitSeq(text, "+") {
		if name := stageOf(stage); !slices.Contains(names, name) {
			return hinted{err, cmp.Or(near.Meant("", name, names), "ipcbench list codecs")}
		}
	}
	return hinted{err, "ipcbench list codecs"}
}

// stageOf returns the stage's name, the part of text before =.
func stageOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

// lossless returns an error if a codec of the cells can alter a tensor whose name matches a
// pattern, or if no tensor matches a pattern.
func lossless(patterns []string, cells []session.Spec) error {
	for _, pattern := range patterns {
		found := false
		for _, c := range cells {
			for _, l := range []*tensor.Layout{c.Model.Layout, c.Up.Layout} {
				for _, s := range l.Specs() {
					ok, err := path.Match(pattern, s.Name)
					if err != nil {
						return usagef("--require-lossless %s: %w: must be a pattern such as *.bias", pattern, err)
					}
					found = found || ok
					if p := c.Variant.Codec(); ok && p.Lossy() && p.Takes(s) == nil {
						return hinted{usagef("--require-lossless %s: codec %s of %s alters tensor %s of %s", pattern, p, c.Variant, s.Name, c.Model.Name),
							"choose another pattern, or an exact codec: see ipcbench help codecs"}
					}
				}
			}
		}
		if !found {
			return usagef("--require-lossless %s: no tensor name matches", pattern)
		}
	}
	return nil
}
