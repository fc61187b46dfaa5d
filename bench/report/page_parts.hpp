// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of pages that are the same for every run: those of charts, which cc-show's pages use,
/// too, and those of a page. The scripts contain no '<' and no '&', so that the page stays XML.

namespace ccoll::bench {

inline constexpr const char* kChartStyle = R"css(
:root { --c0: #0061a8; --c1: #b34700; --c2: #00735a; --c3: #a3306f; --c4: #6b5500; --c5: #5a3fc0;
  --c6: #c0182c; --c7: #3d4852; }
@media (prefers-color-scheme: dark) {
  :root { --c0: #63b3f5; --c1: #f79a52; --c2: #3fcfa7; --c3: #f08cc4; --c4: #d9c04a; --c5: #b5a2ff;
    --c6: #ff7b86; --c7: #c3ccd5; }
}
.chart { margin: 0; min-width: 0; }
.chart svg { width: 100%; height: auto; display: block; }
.chart svg text { font-size: 12px; fill: var(--soft); }
.chart .grid { stroke: var(--faint); }
.series { color: var(--ink); outline: none; }
.series polyline { fill: none; stroke: currentColor; stroke-width: 2; }
.series circle { fill: currentColor; stroke: var(--ground); stroke-width: 1; }
.series circle.on, .series circle:hover { stroke: var(--ink); stroke-width: 2.5; }
.series:focus-visible polyline { stroke-width: 4; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); } .c7 { color: var(--c7); }
.d1 polyline { stroke-dasharray: 7 4; } .d2 polyline { stroke-dasharray: 2 4; }
.d3 polyline { stroke-dasharray: 9 3 2 3; }
.mark line { stroke: var(--soft); stroke-dasharray: 3 3; } .mark rect { fill: var(--ink); }
.readout { min-height: 3em; color: var(--soft); }
fieldset.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; margin: 0;
  border: 0; }
fieldset.legend label { padding: .3rem 0; }
fieldset.legend svg { display: inline-block; width: 2rem; height: .8rem; vertical-align: middle; }
)css";

inline constexpr const char* kPageStyle = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --faint: #d5dae0;
  --soft: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181d; --ink: #e8ecf0; --faint: #39424d; --soft: #a0abb6; }
}
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 0; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
.bad { font-weight: bold; color: var(--c6); }
.charts { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.charts > .chart:only-child { max-width: 40rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { text-align: left; font-weight: bold; padding: .5rem 0; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); }
th[scope=row] { text-align: left; font-weight: normal; }
)css";

inline constexpr const char* kChartScript = R"js(
/** A pointer and the arrow keys find what there is to say of each point. */
function tellPoints(figure) {
  const readout = figure.querySelector('.readout');
  const show = point => {
    figure.querySelectorAll('.on').forEach(other => other.classList.remove('on'));
    point.classList.add('on');
    readout.textContent = point.querySelector('title').textContent;
  };
  figure.querySelectorAll('.series').forEach(series => {
    const points = Array.from(series.querySelectorAll('circle'));
    if (points.length === 0) return;
    let at = 0;
    points.forEach((point, i) => {
      const choose = () => { at = i; show(point); };
      point.addEventListener('pointerenter', choose);
      point.addEventListener('click', choose);
    });
    series.addEventListener('focus', () => show(points[at]));
    series.addEventListener('keydown', event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.max(0, Math.min(points.length - 1, at + step));
      show(points[at]);
    });
  });
}
)js";

inline constexpr const char* kPageScript = R"js(
document.querySelectorAll('figure').forEach(tellPoints);
document.querySelectorAll('.legend input').forEach(box => {
  box.addEventListener('change', () => {
    document.querySelectorAll('.series.' + box.value).forEach(series => {
      series.style.display = box.checked ? '' : 'none';
    });
  });
});
)js";

}  // namespace ccoll::bench
