package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Results of older schemas are upgraded as they are read, one schema at a time.
// Each edit knows the keys of two schemas and no struct of today, so that nothing
// has to be changed in it later. What it makes is checked like a file of today.

// An object is a JSON object: its values by their keys.
type object map[string]json.RawMessage

// An edit makes one schema of the one before it.
type edit func(object) error

// The edits from schema 1, then from schema 2, and so on: of all that is no cell,
// and of a cell of a result whose plan is known.
func headEdits() []edit            { return []edit{head1, head2} }
func cellEdits(plan object) []edit { return []edit{cell1, cell2(plan)} }

// into makes the edits and decodes what they make.
func (o object) into(v any, edits []edit) error {
	for _, s := range edits {
		if err := s(o); err != nil {
			return err
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return strict(text, v)
}

func objectOf(text []byte) (o object, err error) {
	if json.Unmarshal(text, &o) != nil || o == nil {
		return nil, fmt.Errorf("%.20q: no JSON object", text)
	}
	return o, nil
}

// get decodes the value of key, if there is one.
func (o object) get(key string, v any) error {
	text, ok := o[key]
	if !ok {
		return nil
	}
	return within(key, strict(text, v))
}

// set gives key a value that can be encoded.
func (o object) set(key string, v any) error {
	text, err := json.Marshal(v)
	o[key] = text
	return err
}

// rename gives the value of a key another one.
func (o object) rename(from, to string) error {
	if _, ok := o[to]; ok {
		return field(to, "unknown in this schema, where it is called %s", from)
	}
	if text, ok := o[from]; ok {
		o[to] = text
		delete(o, from)
	}
	return nil
}

// within changes the object that key holds, if there is one.
func (o object) within(key string, by edit) error {
	text, ok := o[key]
	if !ok || string(text) == "null" {
		return nil
	}
	part, err := objectOf(text)
	if err == nil {
		err = by(part)
	}
	if err != nil {
		return within(key, err)
	}
	return o.set(key, part)
}

// each changes all objects of the list that key holds.
func (o object) each(key string, by edit) error {
	var list []json.RawMessage
	if err := o.get(key, &list); err != nil {
		return err
	}
	for i, text := range list {
		part, err := objectOf(text)
		if err == nil {
			err = by(part)
		}
		if err == nil {
			list[i], err = json.Marshal(part)
		}
		if err != nil {
			return within(key+fmt.Sprintf("[%d]", i), err)
		}
	}
	return o.set(key, list)
}

// Schema 1 had an entry a round of what schema 2 has the sums of, and was written
// until 22 November 2026. Protocols, times of warming up and the like came to it
// without another version: what is absent is zero.

func head1(o object) error {
	if err := o.set("schema", 2); err != nil {
		return err
	}
	var partial string // of older builds, it may have several lines
	if err := o.get("partial", &partial); err != nil {
		return err
	}
	if err := o.set("partial", oneLine(partial)); err != nil {
		return err
	}
	err := o.within("plan", func(plan object) error {
		if err := plan.rename("warm_ns", "warmup_ns"); err != nil {
			return err
		}
		return plan.rename("samples", "span_room")
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"environment", "against"} {
		if err := o.within(key, func(e object) error { return e.rename("wmem_max", "wmem_max_bytes") }); err != nil {
			return err
		}
	}
	return o.within("canary", func(c object) error {
		if err := c.within("same", cell1); err != nil {
			return err
		}
		return c.within("slow", cell1)
	})
}

func cell1(c object) error {
	return c.each("blocks", func(b object) error {
		if err := b.rename("workers", "processes"); err != nil {
			return err
		}
		if err := b.within("cold", func(c object) error { return c.rename("workers", "processes") }); err != nil {
			return err
		}
		var rounds, unattributed []int64
		var phases map[string][]int64
		if err := cmp.Or(b.get("round_ns", &rounds), b.get("unattributed_ns", &unattributed), b.get("phases_ns", &phases)); err != nil {
			return err
		}
		total, all, err := sums(unattributed, phases, len(rounds))
		if err != nil {
			return err
		}
		if err := b.set("unattributed_ns", total); err != nil {
			return err
		}
		return b.set("phases_ns", all)
	})
}

// Schema 2 had what every training burns, and whether workers were fresh in each round,
// in the plan, for all cells. It was written until 23 November 2026.

func head2(o object) error {
	if err := o.set("schema", 3); err != nil {
		return err
	}
	plan, _ := objectOf(o["plan"])
	burnt := cell2(plan)
	if _, ok := o["skipped"]; ok {
		if err := o.each("skipped", burnt); err != nil {
			return err
		}
	}
	if _, ok := o["floors"]; ok {
		if err := o.each("floors", func(f object) error {
			if _, ofModel := f["model"]; !ofModel {
				return nil
			}
			return burnt(f)
		}); err != nil {
			return err
		}
	}
	err := o.within("plan", func(plan object) error {
		delete(plan, "train_ms")
		delete(plan, "respawn") // cells say it, too
		return nil
	})
	if err != nil {
		return err
	}
	return o.within("canary", func(c object) error { return cmp.Or(c.within("same", burnt), c.within("slow", burnt)) })
}

func cell2(plan object) edit {
	return func(c object) error {
		var ms int
		if err := within("plan", plan.get("train_ms", &ms)); err != nil || ms == 0 {
			return err
		}
		return c.set("train_ms", ms)
	}
}
