// Draws the plots of the page into their figures with Observable Plot. What a chart
// is made of stands in chart.go. All colours are variables of page.css, so that a
// picture follows the theme and the printer without being drawn again.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("plots").textContent);
  const slots = 10; // of colours, --series-1 and on

  // One colour a name on the whole page. The parts of bars are other things than the
  // series of curves and dots: they begin with the first colour again.
  const colours = { bars: new Map(), others: new Map() };
  const namesOf = (c) => (c.kind === "bars" ? colours.bars : colours.others);
  for (const c of charts)
    for (const s of c.series) {
      const names = namesOf(c);
      if (!s.dim && !names.has(s.name)) names.set(s.name, names.size);
    }
  const colour = (c, s) => (s.dim ? "var(--muted)" : `var(--series-${(namesOf(c).get(s.name) % slots) + 1})`);
  const dashed = (c, s) => (s.dim || namesOf(c).get(s.name) >= slots ? "5 3" : null);

  // written has three digits that count, as in tables, or no more than it takes.
  const written = (x, round) => {
    const digits = x === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(x.toPrecision(3)))), 0), 9);
    return (round ? String(Number(x.toPrecision(3))) : x.toFixed(digits)).replace("-", "−");
  };
  // number writes x as the axis has it, with its unit.
  const number = (x, axis, round) => {
    const u = axis.units?.find((u) => Math.abs(x) >= u.per) ?? axis.units?.at(-1) ?? { per: 1, name: axis.unit };
    return written(x / u.per, round) + (u.name ? " " + u.name : "");
  };
  const tick = (axis) => (x) => (axis.change && x > 0 ? "+" : "") + (axis.units ? number(x, axis, true) : written(x, true));
  const title = (axis) => [axis.name, axis.unit, axis.log && "logarithmic"].filter(Boolean).join(", ");

  // ticks are places on a logarithmic axis, about as many as count: those of the points
  // if there are few, such as the steps of a sweep, or round numbers.
  const ticks = ([low, high], count, at = []) => {
    const steps = [...new Set(at)].sort((a, b) => a - b);
    if (steps.length > 1 && steps.length <= 16) return steps.filter((_, i) => i % Math.ceil(steps.length / count) === 0);
    if (high < 5 * low) return d3.ticks(low, high, count);
    for (const steps of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
      const all = [];
      for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++)
        for (const s of steps) if (s * 10 ** k >= low * 0.999 && s * 10 ** k <= high * 1.001) all.push(Number(`${s}e${k}`));
      if (all.length <= count) return all;
      if (steps.length === 1) return all.filter((_, i) => i % Math.ceil(all.length / count) === 0);
    }
  };
  const scale = (axis, domain, pixels, more, at) => ({
    type: axis.log ? "log" : "linear", domain, label: title(axis), labelArrow: "none", grid: true,
    ticks: axis.log ? ticks(domain, Math.max(2, pixels / 60), at) : Math.max(2, Math.min(10, Math.floor(pixels / 70))),
    // d3 leaves out the words of some ticks of a base like 10, also of those that it is given.
    ...(axis.log && { base: 1e6 + 0.5 }), tickFormat: tick(axis), ...more,
  });
  const extent = (axis, xs, zero) => {
    let low = Math.min(...xs), high = Math.max(...xs);
    if (axis.log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
    if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const margin = (high - low || Math.abs(high) || 1) * 0.04;
    return [zero && low === 0 ? 0 : low - margin, zero && high === 0 ? 0 : high + margin];
  };

  const context = document.createElement("canvas").getContext("2d");
  const font = "12px system-ui, sans-serif";
  const width = (text) => ((context.font = font), context.measureText(text).width);
  const longest = (texts) => Math.max(0, ...texts.map(width));
  const short = (text, pixels) => {
    for (let n = text.length; width(text) > pixels && n > 1; n--) text = text.slice(0, n - 1) + "…";
    return text;
  };

  // points are what can be pointed at: the place, the colour and what is said.
  const points = (c, shown) => {
    const all = [];
    for (const s of shown)
      s.value.forEach((v, i) => {
        if (v === null) return;
        const p = { s, i, v, low: s.low?.[i] ?? v, high: s.high?.[i] ?? v, bounded: s.low?.[i] != null, at: s.at?.[i], row: s.row?.[i], fill: colour(c, s) };
        const names = c.kind === "curves" ? [s.name, number(p.at, c.at)] : c.rows[p.row].startsWith(s.name) ? [c.rows[p.row]] : [c.rows[p.row], s.name];
        const of = s.samples?.[i];
        const besides = s.text?.[i] ?? (of && `the median of ${number(d3.min(of), c.value)} to ${number(d3.max(of), c.value)}`);
        p.says = [names.filter(Boolean).join(", "), s.says?.[i] ?? number(v, c.value), besides].filter(Boolean);
        all.push(p);
      });
    return all;
  };

  const finished = (options, marks) => {
    const svg = Plot.plot({ ...options, className: "chart", style: { fontSize: "12px", fontFamily: "inherit" }, marks });
    svg.querySelector("style")?.remove(); // page.css has these rules: its policy allows no others
    svg.setAttribute("role", "img");
    return svg;
  };
  const x = (svg, v) => svg.scale("x").apply(v), y = (svg, v) => svg.scale("y").apply(v);

  // rows draws dots and bars: a row for each name that has a value.
  const rows = (c, shown, all, pixels, label) => {
    const names = [...new Set(all.map((p) => p.row))].sort((a, b) => a - b);
    const wanted = longest(names.map((r) => c.rows[r]));
    const above = pixels < 560 && wanted > pixels * 0.25; // names are above their rows
    const beside = Math.min(wanted, pixels * 0.4);
    const bars = c.kind === "bars";
    const perRow = bars ? 1 : Math.max(...names.map((r) => all.filter((p) => p.row === r).length));
    const rowHeight = Math.max(above ? (bars ? 44 : 38) : 26, perRow * 13 + (above ? 26 : 10));
    const options = {
      width: pixels, height: names.length * rowHeight + 48, marginLeft: above ? 12 : beside + 14, marginTop: 8, marginBottom: 40, marginRight: 16, ariaLabel: label,
    };
    const ends = new Map(); // of the bars of a row
    for (const p of all) {
      if (bars) [p.from, p.to] = [ends.get(p.row) ?? 0, (ends.get(p.row) ?? 0) + p.v], ends.set(p.row, p.to);
      else {
        const same = all.filter((q) => q.row === p.row);
        p.dy = (same.indexOf(p) - (same.length - 1) / 2) * 13;
      }
    }
    const values = all.flatMap((p) => (bars ? [p.to] : c.value.log ? [p.v, p.high, p.low > 0 ? p.low : p.v] : [p.v, p.low, p.high]));
    if (c.rule !== undefined) values.push(c.rule);
    // A value stands behind its dot, and there has to be room for the last one.
    const said = (p) => p.says[1].replace(/ \(.*/, "");
    const labelled = bars ? names.map((r) => all.findLast((p) => p.row === r)) : perRow === 1 ? all : [];
    if (bars) {
      for (const p of labelled) p.total = number(p.to, c.value);
      for (const p of all) p.says.push(written((100 * p.v) / (ends.get(p.row) || 1), true) + " % of " + number(ends.get(p.row), c.value));
    }
    options.marginRight += longest(labelled.map((p) => p.total ?? said(p)));
    const domain = extent(c.value, values, true);
    if (c.value.log) for (const p of all) p.low = Math.max(p.low, domain[0]);
    const inner = pixels - options.marginLeft - options.marginRight;
    options.x = scale(c.value, domain, inner, { labelAnchor: "right", labelOffset: 32 });
    options.y = { type: "band", domain: names, label: null, padding: bars ? 0.3 : 0.1, axis: null };
    if (above && bars) options.y.padding = 0.55;
    const middle = above ? 8 : 0; // of a row, below its name
    const marks = [];
    if (c.rule !== undefined) marks.push(Plot.ruleX([c.rule], { stroke: "var(--ink)", strokeOpacity: 0.7, className: "rule" }));
    marks.push(above
      ? Plot.text(names, { y: (r) => r, text: (r) => short(c.rows[r], pixels - 40), frameAnchor: "left", dx: 0, dy: -rowHeight / 2 + 9, fill: "var(--ink)", className: "names" })
      : Plot.text(names, { y: (r) => r, text: (r) => short(c.rows[r], beside + 4), frameAnchor: "left", textAnchor: "end", dx: -8, fill: "var(--ink)", className: "names" }));
    if (bars) marks.push(Plot.barX(all, { y: "row", x1: "from", x2: "to", fill: (p) => p.fill, insetRight: 1, dy: middle, className: "values" }));
    else
      for (const dy of new Set(all.map((p) => p.dy))) {
        const some = all.filter((p) => p.dy === dy);
        marks.push(
          Plot.ruleY(some.filter((p) => p.high > p.low), { y: "row", x1: "low", x2: "high", stroke: (p) => p.fill, strokeWidth: 7, strokeOpacity: 0.35, strokeLinecap: "round", dy: dy + middle, className: "intervals" }),
          Plot.dot(some, { y: "row", x: "v", r: 4, fill: (p) => p.fill, dy: dy + middle, className: "values" }));
      }
    marks.push(Plot.text(labelled, { y: "row", x: bars ? "to" : (p) => p.high, text: (p) => p.total ?? said(p), textAnchor: "start", dx: 8, dy: middle, fill: "var(--ink)", className: "numbers" }));
    // Colours are no scale: without this, Plot would make one of them.
    const svg = finished({ ...options, color: { type: "identity" } }, marks);
    const half = svg.scale("y").bandwidth / 2;
    for (const p of all) [p.x, p.y] = [x(svg, bars ? (p.from + p.to) / 2 : p.v), y(svg, p.row) + half + (p.dy ?? 0) + middle];
    return svg;
  };

  // curves draws a line for each series, or the one of a panel.
  const curves = (c, shown, all, pixels, label) => {
    const panel = c.apart;
    const sampled = shown.flatMap((s) => (s.samples ? s.samples.flat() : []));
    const values = all.flatMap((p) => (c.value.log ? [p.v, p.low > 0 ? p.low : p.v, p.high] : [p.v, p.low, p.high])).concat(sampled);
    if (c.rule !== undefined) values.push(c.rule);
    // Noise of a few percent must not fill a panel as if it were a change.
    if (panel) values.push(...[0.9, 1.1].map((f) => f * d3.median(all, (p) => p.v)));
    const marks = [], height = panel ? 150 : Math.max(260, Math.min(380, pixels * 0.5));
    // Samples of a point stand side by side in the room that there is up to the next one.
    const steps = [...new Set(all.map((p) => p.at))].sort((a, b) => a - b);
    const room = sampled.length ? 0.7 * (d3.min(d3.pairs(steps), ([a, b]) => b - a) ?? (steps[0] || 1)) : 0;
    const edges = [steps[0] - room / 2, steps.at(-1) + room / 2];
    const domain = { x: extent(c.at, steps.concat(room ? edges : [], (c.marks ?? []).map((m) => m.at)), false), y: extent(c.value, values, !panel) };
    const tickWidth = 14 + longest((c.value.log ? ticks(domain.y, 8) : d3.ticks(...domain.y, 8)).map(tick(c.value)));
    const options = {
      width: pixels, height, marginLeft: tickWidth, marginRight: 16, marginTop: 26, marginBottom: 40, ariaLabel: label,
      x: scale(c.at, domain.x, pixels - tickWidth - 16, { labelAnchor: "right", labelOffset: 32 }, all.every((p) => p.s.says) ? all.map((p) => p.at) : []), y: scale(c.value, domain.y, panel ? 210 : height, { labelAnchor: "top" }),
    };
    if (c.rule !== undefined) marks.push(Plot.ruleY([c.rule], { stroke: "var(--ink)", strokeOpacity: 0.7, className: "rule" }));
    for (const s of shown) {
      const own = all.filter((p) => p.s === s), paint = colour(c, s);
      if (s.samples) {
        const samples = own.flatMap((p) => s.samples[p.i].map((v, k, all) => ({ v, at: p.at + room * ((k + 0.5) / all.length - 0.5) })));
        marks.push(Plot.dot(samples, { x: "at", y: "v", r: 1.5, fill: paint, fillOpacity: 0.45, className: "samples" }));
      }
      if (own.length > 1 && own.some((p) => p.high > p.low)) marks.push(Plot.areaY(own, { x: "at", y1: (p) => (p.bounded ? p.low : NaN), y2: "high", fill: paint, fillOpacity: 0.15, className: "intervals" }));
      else marks.push(Plot.ruleX(own.filter((p) => p.high > p.low), { x: "at", y1: "low", y2: "high", stroke: paint, strokeWidth: 5, strokeOpacity: 0.35, className: "intervals" }));
      marks.push(Plot.line(own, { x: "at", y: "v", curve: c.steps ? "step-after" : "linear", stroke: paint, strokeWidth: 1.75, strokeDasharray: dashed(c, s), className: "curves" }));
      if (own.length <= 40) marks.push(Plot.dot(own, { x: "at", y: "v", r: panel ? 2.5 : 3, fill: paint, className: "values" }));
    }
    marks.push(Plot.dot(c.marks ?? [], { x: "at", y: "value", r: 5, symbol: "times", stroke: "var(--ink)", strokeWidth: 2, className: "marks" }));
    const svg = finished(options, marks);
    for (const p of all) [p.x, p.y] = [x(svg, p.at), y(svg, p.v)];
    for (const m of c.marks ?? []) all.push({ x: x(svg, m.at), y: y(svg, m.value), fill: "var(--ink)", s: c, i: all.length, says: [m.text] });
    return svg;
  };

  const make = (name, cls, text) => Object.assign(document.createElement(name), cls ? { className: cls } : {}, text ? { textContent: text } : {});
  const live = make("p", "unseen");
  live.setAttribute("aria-live", "polite");
  document.body.append(live);

  // explored lets pointer, finger and keys go from point to point of a picture.
  const explored = (holder, svg, all) => {
    let at = -1;
    const ring = document.createElementNS(svg.namespaceURI, "circle");
    for (const [k, v] of Object.entries({ r: 7, fill: "none", "stroke-width": 2, visibility: "hidden", "aria-hidden": true })) ring.setAttribute(k, v);
    svg.append(ring);
    const tip = make("div", "tip");
    tip.hidden = true;
    holder.replaceChildren(svg, tip);
    const hide = () => ((at = -1), (tip.hidden = true), ring.setAttribute("visibility", "hidden"));
    const show = (i, aloud) => {
      const p = all[(at = i)];
      for (const [k, v] of Object.entries({ cx: p.x, cy: p.y, stroke: p.fill, visibility: "visible" })) ring.setAttribute(k, v);
      tip.replaceChildren(...p.says.map((line, k) => make(k ? "div" : "b", "", line)));
      tip.hidden = false;
      const f = svg.getBoundingClientRect().width / svg.width.baseVal.value; // it is smaller in a narrow window that has just changed
      const left = Math.min(Math.max(p.x * f - tip.offsetWidth / 2, 0), Math.max(holder.clientWidth - tip.offsetWidth, 0));
      const top = p.y * f - tip.offsetHeight - 12;
      tip.style.left = left + "px";
      tip.style.top = (top < 0 ? p.y * f + 14 : top) + "px";
      if (aloud) live.textContent = p.says.join(": ");
    };
    const near = (e) => {
      const box = svg.getBoundingClientRect(), f = svg.width.baseVal.value / box.width;
      const px = (e.clientX - box.left) * f, py = (e.clientY - box.top) * f;
      const i = d3.minIndex(all, (p) => Math.hypot(p.x - px, p.y - py) || 0.001);
      if (i >= 0 && Math.abs(all[i].y - py) < 60) i !== at && show(i);
      else hide();
    };
    svg.addEventListener("pointermove", near);
    svg.addEventListener("pointerdown", near);
    svg.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && hide());
    holder.onblur = hide;
    holder.onkeydown = (e) => {
      if (e.ctrlKey || e.altKey || e.metaKey || !all.length) return;
      // Up and down go to the nearest point of another series, where there are curves.
      const across = (step) => {
        const series = [...new Set(all.map((p) => p.s))], p = all[Math.max(at, 0)];
        const next = series[series.indexOf(p.s) + step];
        return next ? d3.minIndex(all, (q) => (q.s === next ? Math.abs(q.x - p.x) : Infinity)) : at;
      };
      const last = all.length - 1, curve = all[0].at !== undefined;
      const to = {
        ArrowRight: () => Math.min(at + 1, last), ArrowLeft: () => Math.max(at - 1, 0), Home: () => 0, End: () => last,
        ArrowDown: () => (curve && at >= 0 ? across(1) : Math.min(at + 1, last)), ArrowUp: () => (curve ? across(-1) : Math.max(at - 1, 0)),
      }[e.key];
      if (e.key === "Escape") hide();
      else if (to) show(Math.max(to(), 0), true), e.preventDefault();
    };
  };

  // A figure draws itself again when its width changes or a series is hidden.
  const figures = [...document.querySelectorAll("figure.plot")].map((figure, k) => {
    const c = charts[k], canvas = figure.querySelector(".canvas"), hidden = new Set();
    const label = figure.querySelector("figcaption")?.textContent.trim() || c.value.name;
    let drawn = 0;
    const holder = (name) => {
      const h = make("div", "picture");
      h.tabIndex = 0;
      h.setAttribute("role", "group");
      h.setAttribute("aria-label", [label, name, "arrow keys go from point to point"].filter(Boolean).join(": "));
      return h;
    };
    const legend = make("div", "legend"), panels = make("div", c.apart ? "panels" : "");
    const holders = c.apart ? c.series.map((s) => holder(s.name)) : [holder()];
    // Rows that have one point each, of a series of its own, are named already.
    const named = c.kind === "dots" && c.rows.length === c.series.length && c.series.every((s) => s.row.length === 1);
    if (c.series.length > 1 && !c.apart && !named)
      for (const s of c.series) {
        const b = make("button", "", s.name);
        b.type = "button";
        b.setAttribute("aria-pressed", true);
        b.style.setProperty("--own", colour(c, s));
        b.onclick = () => {
          hidden.delete(s) || hidden.add(s);
          if (hidden.size === c.series.length) hidden.clear(); // an empty picture helps nobody
          [...legend.children].forEach((b, i) => b.setAttribute("aria-pressed", !hidden.has(c.series[i])));
          draw(true);
        };
        legend.append(b);
      }
    const tables = [...(figure.closest("section")?.querySelectorAll("figure.table") ?? [])];
    const table = tables.find((t) => label.endsWith(t.querySelector("figcaption")?.textContent.trim().split(":")[0])) ?? tables[0];
    if (table) {
      table.id ||= "table-" + k;
      figure.append(Object.assign(make("a", "numbers", "To its table"), { href: "#" + table.id }));
    }
    canvas.replaceChildren(...(legend.children.length ? [legend] : []), panels);
    holders.forEach((h, i) => {
      const part = c.apart ? make("div", "panel") : panels;
      if (c.apart) part.append(make("h4", "", c.series[i].name)), panels.append(part);
      part.append(h);
    });
    const draw = (again) => {
      const pixels = Math.floor(holders[0].clientWidth);
      if (!pixels || (pixels === drawn && !again)) return;
      drawn = pixels;
      holders.forEach((h, i) => {
        const shown = c.apart ? [c.series[i]] : c.series.filter((s) => !hidden.has(s));
        const all = points(c, shown);
        if (c.kind !== "curves") all.sort((a, b) => a.row - b.row);
        explored(h, (c.kind === "curves" ? curves : rows)(c, shown, all, pixels, h.getAttribute("aria-label")), all);
      });
    };
    return { figure, draw };
  });

  const of = new Map(figures.map((f) => [f.figure, f]));
  const resized = new ResizeObserver((all) => requestAnimationFrame(() => all.forEach((e) => of.get(e.target).draw())));
  const seen = new IntersectionObserver((all) => {
    for (const e of all.filter((e) => e.isIntersecting)) seen.unobserve(e.target), resized.observe(e.target);
  }, { rootMargin: "400px" });
  for (const f of figures) {
    if (f.figure.getBoundingClientRect().top < innerHeight) f.draw(); // who takes a picture of the page scrolls nowhere
    seen.observe(f.figure);
  }
  addEventListener("beforeprint", () => figures.forEach((f) => f.draw()));
})();
