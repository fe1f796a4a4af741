// The element a line above (step -1) or below (1) that stands nearest to words[here].
function lineStep(words, here, step) {
  const from = words[here].getBoundingClientRect();
  const middle = (box) => box.left + box.width / 2;
  let best = here, row = null;
  for (let i = here + step; i >= 0 && i < words.length; i += step) {
    const box = words[i].getBoundingClientRect();
    if (Math.abs(box.top - from.top) < box.height / 2) continue;
    row ??= box.top;
    if (Math.abs(box.top - row) > box.height / 2) break;
    const nearer = Math.abs(middle(box) - middle(from)) < Math.abs(middle(words[best].getBoundingClientRect()) - middle(from));
    if (best === here || nearer) best = i;
  }
  return best;
}
