// SPDX-License-Identifier: Apache-2.0
// What to take away from a run, and questions about it.

function lessonOf({lesson}) {
  if (!lesson) return [];
  return [
    html('h2', {}, 'What to take away'),
    html('p', {}, lesson.takeaway),
    html('p', {class: 'formula'}, lesson.formula),
    ...lesson.questions.map(([question, answer]) =>
      html('details', {}, html('summary', {}, question), html('p', {}, answer))),
  ];
}
