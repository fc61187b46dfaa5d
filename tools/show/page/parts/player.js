// SPDX-License-Identifier: Apache-2.0
// The one cursor of the page: a time on the clock that all views share, moved by buttons, slider,
// keys and the page's address.

const kRoundMs = 1300;
const kRestMs = 450;
const kHurriedMs = 550;
const still = matchMedia('(prefers-reduced-motion: reduce)');

class Player {
  constructor(runs, compare) {
    this.runs = runs;
    this.compare = compare;
    this.followed = null;
    this.playing = false;
    this.fault = null;
    this.faults = new Faults(fault => this.breakAt(fault));
    this.curves = new Curves(compare?.curves, () => this.render());
    this.wire();
  }

  /** Shows these runs, all of them on one clock. */
  open(runs) {
    this.stop();
    this.views = runs.map(run => new View(run, this, runs.length > 1 ? 3 : 2));
    by('views').replaceChildren(...this.views.map(view => view.element));
    by('views').classList.toggle('compared', runs.length > 1);
    this.marks = [...new Set([0, ...runs.flatMap(run => run.ends)])].sort((a, b) => a - b);
    this.time = this.goal = 0;
    by('scrub').max = this.marks.length - 1;
    this.offerFollow(runs);
    this.fault = null;
    this.faults.open(runs.length === 1 ? runs[0] : null);
    this.faults.show(null);
    this.describe(runs);
    this.resize();
  }

  /** Shows another one of the page's runs. */
  choose(run) {
    this.open([run]);
    by('run').value = this.runs.indexOf(run);
    this.follow(null);
  }

  get mark() { return this.marks.findLastIndex(mark => mark <= this.time); }

  wire() {
    by('first').addEventListener('click', () => this.seek(0));
    by('back').addEventListener('click', () => this.goBack());
    by('play').addEventListener('click', () => this.toggle());
    by('forward').addEventListener('click', () => this.goOn());
    by('last').addEventListener('click', () => this.seek(this.marks.at(-1)));
    by('scrub').addEventListener('input', () => this.seek(this.marks[Number(by('scrub').value)]));
    by('follow').addEventListener('change', () => this.follow(followed(by('follow').value)));
    by('cells').addEventListener('change', () => this.resize());
    by('help').addEventListener('click', () => by('keys').showModal());
    by('close').addEventListener('click', () => by('keys').close());
    addEventListener('keydown', event => this.key(event));
    new ResizeObserver(() => {
      if (by('views').clientWidth !== this.width) this.resize();
    }).observe(by('views'));
    addEventListener('hashchange', () => this.restore());
  }

  resize() {
    this.width = by('views').clientWidth;
    for (const view of this.views) view.resize(this.marks.at(-1));
    this.render();
  }

  // --- moving ---

  seek(time) {
    this.stop();
    this.time = this.goal = time;
    this.render();
  }

  goBack() {
    const whole = this.marks[this.mark] === this.time;
    this.seek(this.marks[Math.max(0, this.mark - (whole ? 1 : 0))]);
  }

  goOn() {
    if (this.goal !== this.time && !this.playing) this.time = this.goal;
    this.stop();
    const next = this.marks[Math.min(this.marks.length - 1, this.mark + 1)];
    if (still.matches) return this.seek(next);
    this.run(next, kHurriedMs);
  }

  toggle() {
    if (this.playing) return this.seek(this.time);
    if (this.time >= this.marks.at(-1)) this.time = 0;
    this.playing = true;
    by('play').setAttribute('aria-label', 'Pause');
    document.body.classList.add('playing');
    this.playOn();
  }

  playOn() {
    const next = this.marks[this.mark + 1];
    if (next === undefined) return this.stop();
    // One run's rounds all take the same time. On a clock shared by several runs, rounds differ, so
    // the whole takes the time of the longest run's rounds, and each part its share of that.
    const most = Math.max(...this.views.map(each => each.run.count));
    const share = this.views.length === 1 ? 1 : (next - this.time) / this.marks.at(-1) * most;
    const ms = kRoundMs * share / Number(by('speed').value);
    if (!still.matches) return this.run(next, ms);
    this.waiting = setTimeout(() => {
      this.time = this.goal = next;
      this.render();
      this.playOn();
    }, ms + kRestMs);
  }

  /** Lets time pass up to `goal`, in `ms`. */
  run(goal, ms) {
    const from = this.time;
    const began = performance.now();
    this.goal = goal;
    const frame = now => {
      const share = Math.min(1, Math.max(0, now - began) / ms);
      this.time = share === 1 ? goal : from + (goal - from) * share;
      this.render();
      if (share < 1) {
        this.frame = requestAnimationFrame(frame);
      } else if (this.playing) {
        const rest = this.views.length === 1 ? kRestMs / Number(by('speed').value) : 0;
        this.waiting = setTimeout(() => this.playOn(), rest);
      }
    };
    this.frame = requestAnimationFrame(frame);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.waiting);
    this.playing = false;
    by('play').setAttribute('aria-label', 'Play');
    document.body.classList.remove('playing');
  }

  /** What is said of the runs beside the pictures. */
  describe(runs) {
    const only = runs.length === 1 ? runs[0] : null;
    if (only) by('title').textContent = only.title;
    by('facts').textContent = capital(runs[0].meaning) + '.' +
      (this.compare ? ' ' + this.compare.clock : '');
    by('verdict').textContent = runs.map(run =>
      only ? `${capital(run.verdict.text)}.` : `${run.algorithm}: ${run.verdict.text}.`).join(' ');
    by('lesson').replaceChildren(...only ? lessonOf(only) : []);
    by('lesson').hidden = by('lesson').childElementCount === 0;
    by('listings').replaceChildren(...runs.map(listing));
    by('source').textContent = runs.map(run => run.source)
      .map((source, i) => `Source of ${runs[i].algorithm}: ${source}`).join('; ');
  }

  // --- following ---

  offerFollow(runs) {
    const most = what => Math.max(...runs.map(what));
    const option = (value, text) => html('option', {value}, text);
    by('follow').replaceChildren(option('', 'nothing'),
      ...range(most(run => run.columns.length)).map(block => option(`b${block}`,
        runs[0].isMatrix ? `blocks from rank ${block}` : `block ${blockName(block)}`)),
      ...range(most(run => run.ranks)).map(rank => option(`r${rank}`, `rank ${rank}`)));
  }

  follow(what) {
    this.followed = what;
    this.render();
  }

  followNext() {
    const blocks = Math.max(...this.views.map(view => view.run.columns.length));
    const next = (this.followed?.block ?? -1) + 1;
    this.follow(next < blocks ? {block: next} : null);
  }

  // --- breaking ---

  /** Marks a message as broken, and goes where it is sent. */
  breakAt(fault) {
    this.fault = fault;
    this.faults.show(fault);
    if (fault) this.seek(this.marks[this.faults.round(fault)]);
    else this.render();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || by('keys').open) return;
    const target = event.target;
    if (event.defaultPrevented || target.tagName === 'SELECT') return;
    if (target.type === 'range' && target !== by('scrub')) return;
    const presses = event.key === ' ' && target.closest('button, summary, a, [type=checkbox]');
    const scrolls = event.key.startsWith('Arrow') && target.classList?.contains('scroll') &&
      target.scrollWidth > target.clientWidth;
    if (presses || scrolls) return;
    const action = {
      ArrowLeft: () => this.goBack(),
      ArrowRight: () => this.goOn(),
      Home: () => this.seek(0),
      End: () => this.seek(this.marks.at(-1)),
      ' ': () => this.toggle(),
      f: () => this.followNext(),
      '?': () => by('keys').showModal(),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // --- showing ---

  render() {
    for (const view of this.views) {
      view.show(view.run.position(this.time), this.followed, this.fault);
    }
    const resting = this.time === this.goal;
    const mark = this.marks.findIndex(each => each >= this.time);
    by('scrub').value = mark;
    by('where').textContent = this.where(mark);
    this.tell?.(mark);
    by('scrub').setAttribute('aria-valuetext', by('where').textContent);
    by('first').disabled = by('back').disabled = this.time === 0;
    by('last').disabled = by('forward').disabled = this.time >= this.marks.at(-1);
    by('follow').value = this.followed === null ? '' : this.followed.block !== undefined
      ? `b${this.followed.block}` : `r${this.followed.rank}`;
    if (!resting) return;
    const said = this.said();
    if (by('said').textContent !== said) by('said').textContent = said;
    history.replaceState(null, '', this.address());
  }

  where(mark) {
    if (this.views.length === 1) return `round ${mark} of ${this.marks.length - 1}`;
    return `${this.time.toFixed(1)} of ${this.marks.at(-1).toFixed(1)} ${this.compare.unit}`;
  }

  said() {
    return this.views.map(({run}) => {
      const round = Math.floor(run.position(this.time));
      if (this.views.length === 1) return run.sentence(round);
      return `${run.algorithm}: round ${round} of ${run.count} is over.`;
    }).join(' ');
  }

  // --- the page's address ---

  address() {
    const {run} = this.views[0];
    const parts = [`op=${run.operation}`];
    if (this.views.length === 1) parts.push(`algo=${run.algorithm}`);
    parts.push(`n=${run.ranks}`, `round=${this.mark}`);
    if (by('follow').value) parts.push(`follow=${by('follow').value}`);
    if (this.curves.address()) parts.push(`at=${this.curves.address()}`);
    if (this.fault) parts.push(`break=${this.faults.key(this.fault)}`);
    return '#' + parts.join('&');
  }

  /** Goes where the address says, as far as it makes sense here. */
  restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!this.compare) {
      const index = this.runs.findIndex(run => run.algorithm === wanted.get('algo') &&
        String(run.ranks) === wanted.get('n'));
      const at = index < 0 ? 0 : index;
      if (this.views?.[0].run !== this.runs[at]) this.open([this.runs[at]]);
      by('run').value = at;
    } else if (!this.views) {
      this.open(this.runs);
    }
    this.followed = followed(wanted.get('follow') ?? '');
    this.curves.restore(wanted.get('at') ?? '');
    this.fault = this.faults.named(wanted.get('break') ?? '');
    this.faults.show(this.fault);
    const round = Number(wanted.get('round') ?? 0);
    this.seek(this.marks[Number.isInteger(round) ? Math.max(0, round) : 0] ?? this.marks.at(-1));
  }
}

/** "b3": block D; "r2": rank 2. */
function followed(text) {
  const option = by('follow').querySelector(`option[value="${CSS.escape(text)}"]`);
  if (!text || !option) return null;
  return {[text[0] === 'b' ? 'block' : 'rank']: Number(text.slice(1))};
}
