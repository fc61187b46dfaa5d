// SPDX-License-Identifier: Apache-2.0
// Making elements, and how ranks and blocks are written.

const kSvg = 'http://www.w3.org/2000/svg';

function by(id) { return document.getElementById(id); }

function add(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

function html(name, attributes = {}, ...children) {
  return add(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return add(document.createElementNS(kSvg, name), attributes, children);
}

function range(count) { return Array.from({length: count}, (_, i) => i); }

/** 0, 1, … 25, 26 as "A", "B", … "Z", "AA": ranks have numbers, blocks have letters. */
function blockName(block) {
  let name = '';
  for (let left = block + 1; left > 0; left = Math.floor((left - 1) / 26)) {
    name = String.fromCharCode(65 + (left - 1) % 26) + name;
  }
  return name;
}

/** There are so many hues for blocks. */
const kHues = 8;

function hueOf(block) { return `hue${block % kHues}`; }

/** Blocks by their letters; one alone in its hue. */
function letters(blocks) {
  return html('span', {class: blocks.length === 1 ? `letter ${hueOf(blocks[0])}` : 'letters'},
    stretches(blocks, blockName));
}

/** [5, 0, 1, 2] as "0–2, 5", each written by `name`. */
function stretches(unsorted, name = String) {
  const numbers = [...unsorted].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < numbers.length;) {
    let end = i;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end] + 1) ++end;
    parts.push(end - i > 1 ? `${name(numbers[i])}–${name(numbers[end])}`
      : numbers.slice(i, end + 1).map(each => name(each)).join(', '));
    i = end + 1;
  }
  return parts.join(', ');
}

function capital(text) { return text[0].toUpperCase() + text.slice(1); }

function counted(number, word, plural = word + 's') {
  return `${number.toLocaleString('en')} ${number === 1 ? word : plural}`;
}
