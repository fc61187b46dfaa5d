# SPDX-License-Identifier: Apache-2.0
"""The page of bench/compare --html: time by size, a chart per operation and number of ranks.

Self-contained, for light and dark, readable without colours: lines differ by dashes and marks, and
the same figures follow as a table.
"""
import html
import math

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
STYLES = {"ccoll": ("c0", ""), "registered": ("c0", "6 3"), "bare": ("c4", "2 4"),
          "bare registered": ("c4", "1 2"), "openmpi": ("c1", "7 4"),
          "openmpi5": ("c1", "2 2"), "mpich": ("c2", "9 3 2 3"), "mpich5": ("c2", "3 3"),
          "gloo": ("c3", "4 2"), "oneccl": ("c5", "11 3")}

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --faint: #d5dae0; --soft: #57606a;
  --c0: #0061a8; --c1: #b34700; --c2: #00735a; --c3: #a3306f; --c4: #6b5500;
  --c5: #5b45c2; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --ink: #e8ecf0; --faint: #39424d;
  --soft: #a0abb6; --c0: #63b3f5; --c1: #f79a52; --c2: #3fcfa7; --c3: #f08cc4; --c4: #d9c04a;
  --c5: #b3a5ff; } }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 0; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; min-width: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); } .grid { stroke: var(--faint); }
polyline { fill: none; stroke: currentColor; stroke-width: 2; }
circle { fill: currentColor; } ul { display: flex; flex-wrap: wrap; gap: 0 1.2rem; padding: 0;
  list-style: none; margin: 0; } li svg { display: inline-block; width: 2rem; height: .8rem; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); }
th[scope=row] { text-align: left; font-weight: normal; }
"""


class Axis:
    """Logarithmic: values between powers of `base` lie at pixels `start` to `end`."""

    def __init__(self, values, base, start, end):
        self.base = base
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(math.ceil(math.log(max(values), base) - 1e-9), self.low + 1)
        self.start, self.end = start, end

    def __call__(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self):
        return [self.base ** power for power in range(self.low, self.high + 1)]


def style_of(name):
    colour, dashes = STYLES[name]
    return f'class="{colour}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def time_text(usec):
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if usec >= factor:
            return f"{usec / factor:g} {unit}"
    return f"{usec:g} µs"


def chart(title, series, short):
    """`series`: by name, times in µs by size. `short`: formats a size."""
    xs = [size for points in series.values() for size in points]
    across = Axis(xs, 4, LEFT, WIDTH - RIGHT)
    up = Axis([usec for points in series.values() for usec in points.values()], 10,
              HEIGHT - BOTTOM, TOP)
    parts = []
    for usec in up.ticks():
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(usec)}" '
                     f'y2="{up(usec)}"/><text x="{LEFT - 6}" y="{up(usec) + 4}" '
                     f'text-anchor="end">{time_text(usec)}</text>')
    ticks = sorted(set(xs))
    for size in ticks[::max(1, math.ceil(len(ticks) / 7))]:
        parts.append(f'<text x="{across(size)}" y="{HEIGHT - 12}" text-anchor="middle">'
                     f'{short(size)}</text>')
    for name, points in series.items():
        places = [(across(size), up(usec), size, usec) for size, usec in sorted(points.items())]
        line = " ".join(f"{x},{y}" for x, y, _, _ in places)
        marks = "".join(f'<circle cx="{x}" cy="{y}" r="4"><title>{name}, {short(size)}: '
                        f'{usec:.2f} µs</title></circle>' for x, y, size, usec in places)
        parts.append(f'<g {style_of(name)}><polyline points="{line}"/>{marks}</g>')
    legend = "".join(f'<li><svg viewBox="0 0 32 8" aria-hidden="true"><g {style_of(name)}>'
                     f'<polyline points="0,4 32,4"/></g></svg> {name}</li>' for name in series)
    return (f'<figure><h2>{html.escape(title)}</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{html.escape(title)}: time by size">{"".join(parts)}</svg>'
            f'<ul>{legend}</ul></figure>')


def table(points, names, short):
    heading = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for point in points:
        cells = "".join(f"<td>{'–' if usec is None else format(usec, '.2f')}</td>"
                        for usec in (times_of(point).get(name) for name in names))
        ratio = "–" if point.ratio() is None else f"{point.ratio():.2f}"
        rows.append(f'<tr><th scope="row">{point.op}</th><td>{point.ranks}</td>'
                    f'<td>{short(point.size)}</td>{cells}<td>{ratio}</td></tr>')
    return ('<div class="scroll"><table><thead><tr><th scope="row">operation</th><th>ranks</th>'
            f'<th>bytes</th>{heading}<th>ccoll / best</th></tr></thead>'
            f'<tbody>{"".join(rows)}</tbody></table></div>')


def times_of(point):
    return {name: point.median(name) for name in point.samples}


def page(points, names, transport, rounds, short):
    charts = []
    for ranks, op in dict.fromkeys((point.ranks, point.op) for point in points):
        series = {}
        for point in points:
            if (point.ranks, point.op) != (ranks, op) or point.size == 0:
                continue
            for name, usec in times_of(point).items():
                series.setdefault(name, {})[point.size] = usec
        if series:
            charts.append(chart(f"{op}, {ranks} ranks", series, short))
    names = list(dict.fromkeys([*names, *(name for point in points for name in point.samples)]))
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f'<title>ccoll beside its peers</title><style>{STYLE}</style></head><body>'
            f'<h1>ccoll beside its peers, {transport}</h1><p>Time of a call by the size of its '
            f'data: medians of {rounds} rounds or more, µs; less is better.</p>'
            f'<div class="charts">{"".join(charts)}</div>{table(points, names, short)}'
            '</body></html>\n')
