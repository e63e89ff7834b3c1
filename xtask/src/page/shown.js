JSON.stringify((() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const box = element => element.getBoundingClientRect();
  const scrolls = element => {
    const around = element.parentElement.closest('.scroll');
    return around && getComputedStyle(around).overflowX === 'auto';
  };
  const isCut = element => box(element).width > 0 && !scrolls(element) && !element.classList.contains('skip')
    && (box(element).right > innerWidth + 1 || box(element).left < -1);
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  const collisions = drawing => {
    const texts = all('text', drawing).map(text => [text.textContent.trim(), box(text)]);
    return texts.flatMap(([one, a], place) =>
      texts.slice(place + 1).filter(([, b]) => touch(a, b)).map(([other]) => one + ' and ' + other));
  };
  const rows = all('main > section:not(#exits):not(#overview) > .chart .rows > li');
  return {
    width: document.documentElement.scrollWidth,
    cut: all('body *').filter(isCut).map(element => element.outerHTML.slice(0, 120)).slice(0, 5),
    colliding: all('svg').flatMap(collisions).slice(0, 5),
    rows: rows.map(row =>
      [row.querySelector('.name').textContent, all('.line rect', row).filter(bar => box(bar).width > 0.5).length]),
  };
})())
