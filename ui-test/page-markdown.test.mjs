// Markdown of responses: the elements it becomes, that it cannot become anything else,
// and that drawing hostile or long text takes linear time.

import assert from 'node:assert/strict';
import { shot } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see } = await start('ui-test/page/apps/writer');

/** draw returns the HTML of the nodes drawn for a Markdown text. */
const draw = (page, text) => page.evaluate(async (source) => {
  const { drawMarkdown } = await import('/ui/markdown.js');
  return drawMarkdown(source).innerHTML.replaceAll('<button type="button" class="copy">Copy</button>', '');
}, text);

const LINK = (url, text) => `<a href="${url}" title="${url}" target="_blank" rel="noopener noreferrer nofollow">${text}</a>`;
const CODE = (name, text) => `<figure class="code"><figcaption>${name}</figcaption><pre><code>${text}</code></pre></figure>`;

const CASES = [
  ['a line break stays', 'one\ntwo  \nthree', '<p>one\ntwo\nthree</p>'],
  ['paragraphs', 'one\n\n\ntwo', '<p>one</p><p>two</p>'],
  ['headings', '# A #\n## B\nC\n===\nD\n---', '<h4 data-level="1">A</h4><h5 data-level="2">B</h5><h4 data-level="1">C</h4><h5 data-level="2">D</h5>'],
  ['not a heading', '#tag\n####### x', '<p>#tag\n####### x</p>'],
  ['a rule', 'a\n\n---\n* * *', '<p>a</p><hr><hr>'],
  ['emphasis', '*a* **b** ***c*** _d_ __e__ ~~f~~', '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> <strong>e</strong> <del>f</del></p>'],
  ['emphasis in words', 'snake_case_name 2*3*4 a**b**c', '<p>snake_case_name 2<em>3</em>4 a<strong>b</strong>c</p>'],
  ['nested emphasis', '**a *b* c** *a **b***', '<p><strong>a <em>b</em> c</strong> <em>a <strong>b</strong></em></p>'],
  ['no emphasis', '* a* 2 * 3 ** \\*b\\* **open', '<ul><li><p>a* 2 * 3 ** *b* **open</p></li></ul>'],
  ['code spans', '`a *b* <i>` ``x ` y`` ` open', '<p><code>a *b* &lt;i&gt;</code> <code>x ` y</code> ` open</p>'],
  ['fenced code', '```js\n*a*\n\n  b\n```\nc', `${CODE('js', '*a*\n\n  b')}<p>c</p>`],
  ['a fence without end', '~~~\na\n```', CODE('', 'a\n```')],
  ['a fence in an item', '1. a\n   ```\n   b\n   ```\n2. c', `<ol><li><p>a</p>${CODE('', 'b')}</li><li><p>c</p></li></ol>`],
  ['lists', '- a\n- b\n  continued\n\n  more\n+ c', '<ul><li><p>a</p></li><li><p>b\ncontinued</p><p>more</p></li></ul><ul><li><p>c</p></li></ul>'],
  ['nested lists', '1. a\n  - b\n    - c\n2. d', '<ol><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p></li></ol>'],
  ['a list with its own start', '3. a\n4. b', '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'],
  ['a year does not start a list', 'in\n1984. x', '<p>in\n1984. x</p>'],
  ['tasks', '- [x] a\n- [ ] b', '<ul><li class="task" data-done=""><p>a</p></li><li class="task"><p>b</p></li></ul>'],
  ['quotes', '> a\nlazy\n> > b\n\nc', '<blockquote><p>a\nlazy</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>'],
  ['a table', '|a|b|\n|-|:-:|\n|`1`|x\\|y|\n|2|\nafter', '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th>a</th><th data-align="center">b</th></tr></thead><tbody><tr><td><code>1</code></td><td data-align="center">x|y</td></tr><tr><td>2</td><td data-align="center"></td></tr><tr><td>after</td><td data-align="center"></td></tr></tbody></table></div>'],
  ['no table', 'a | b\nc | d', '<p>a | b\nc | d</p>'],
  ['links', '[a *b*](https://x.example/p?q=1 "title") [m](mailto:a@x.example)', `<p>${LINK('https://x.example/p?q=1', 'a <em>b</em>')} ${LINK('mailto:a@x.example', 'm')}</p>`],
  ['bare links', 'See https://x.example/a_(b), <https://y.example>.', `<p>See ${LINK('https://x.example/a_(b)', 'https://x.example/a_(b)')}, ${LINK('https://y.example/', 'https://y.example')}.</p>`],
  ['links do not nest', '[a [b](https://x.example) c](https://y.example) [https://z.example](https://w.example)', `<p>[a ${LINK('https://x.example/', 'b')} c](${LINK('https://y.example/', 'https://y.example')}) ${LINK('https://w.example/', 'https://z.example')}</p>`],
  ['brackets', '[a] [b](c d) [](https://x.example)', `<p>[a] [b](c d) ${LINK('https://x.example/', 'https://x.example/')}</p>`],
  ['an image is a link', '![logo](https://x.example/i.png)', `<p>${LINK('https://x.example/i.png', 'logo')}</p>`],
  ['an object is JSON', '{"a": "*b*"}', CODE('', '{"a": "*b*"}')],
  ['entities', '&lt;b&gt; &amp; &nosuch; &#39;', '<p>&lt;b&gt; &amp; &amp;nosuch; \'</p>'],
  ['a break in a cell', 'a<br>b<br/>c', '<p>a\nb\nc</p>'],
  // Attacks.
  ['HTML is text', '<script>alert(1)</script><img src=x onerror=alert(1)>', '<p>&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</p>'],
  ['HTML in code, cells and labels', '`<b>` [<i>](https://x.example)\n\n|<b>|\n|-|', `<p><code>&lt;b&gt;</code> ${LINK('https://x.example/', '&lt;i&gt;')}</p><div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th>&lt;b&gt;</th></tr></thead><tbody></tbody></table></div>`],
  ['a javascript: link', '[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) <javascript:alert(1)>', '<p>x (javascript:alert(1)) y (JaVaScRiPt:alert(1)) &lt;javascript:alert(1)&gt;</p>'],
  ['other schemes', '[a](data:text/html,x) [b](vbscript:x) [c](file:///etc/passwd) [d](blob:x) [e](//evil.example) [f](/-/reload) [g](#desk)', '<p>a (data:text/html,x) b (vbscript:x) c (file:///etc/passwd) d (blob:x) e (//evil.example) f (/-/reload) g (#desk)</p>'],
  ['a scheme after control characters', '[a](java\tscript:x) [b](<java\tscript:alert(1)>) [c](&#106;avascript:x) [d](\\javascript:x)', '<p>[a](java\tscript:x) b (java\tscript:alert(1)) c (&amp;#106;avascript:x) d (\\javascript:x)</p>'],
  ['an attribute in an address', '[a](https://x.example/"onmouseover="alert(1))', `<p>${LINK('https://x.example/%22onmouseover=%22alert(1)', 'a')}</p>`],
  ['an image loads nothing', '![a](http://127.0.0.1:9/x.png) ![b](data:image/png;base64,AAAA)', `<p>${LINK('http://127.0.0.1:9/x.png', 'a')} b (data:image/png;base64,AAAA)</p>`],
  ['the name of a language is a name', '```js"><b>\nx\n```', CODE('js', 'x')],
];

see('Markdown becomes the expected elements only', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  for (const [name, text, want] of CASES) assert.equal(await draw(page, text), want, name);
  // Any division into chunks gives the same result.
  const drawn = await page.evaluate(async (sources) => {
    const { Markdown } = await import('/ui/markdown.js');
    return sources.map((source) => [1, 2, 5, 17].map((size) => {
      const root = document.createElement('div');
      const view = new Markdown(root);
      for (let at = 0; at < source.length; at += size) {
        view.append(source.slice(at, at + size));
        view.draw();
      }
      view.finish(source);
      return root.innerHTML.replaceAll('<button type="button" class="copy">Copy</button>', '');
    }));
  }, CASES.map(([, text]) => text));
  for (const [i, [name, , want]] of CASES.entries()) for (const got of drawn[i]) assert.equal(got, want, `${name}, in chunks`);
}, { hash: '/#writer' });

const N = 1_000_000;
const HOSTILE = {
  'quotes in quotes': '>'.repeat(N), 'lists in lists': '- '.repeat(N / 2), 'lists on a line': '- * '.repeat(N / 4), 'deep indents': Array.from({ length: 1400 }, (_, i) => `${' '.repeat(i)}- x`).join('\n'),
  'many items': '- a\n'.repeat(N / 4), 'many blank lines': `- a${'\n'.repeat(N)}`, 'many paragraphs': 'a\n\n'.repeat(N / 3), 'many cells': `${'|'.repeat(N)}\n${'|-'.repeat(N / 2)}`,
  'many rows': `|a|b|\n|-|-|\n${'|x|y|\n'.repeat(N / 6)}`, 'wide rows': `|${'a|'.repeat(60)}\n|${'-|'.repeat(60)}\n${'|\n'.repeat(N / 2)}`, 'fences': '```\n'.repeat(N / 4),
  'stars': '*'.repeat(N), 'open emphasis': '*a '.repeat(N / 3), 'closed emphasis': ' a*'.repeat(N / 3), 'nested emphasis': '*a '.repeat(N / 6) + 'b* '.repeat(N / 6), 'strong': '**a** '.repeat(N / 6),
  'mixed delimiters': 'a **b *c_ ~~d `'.repeat(N / 15), 'underscores': '_a __b '.repeat(N / 7), 'backticks': Array.from({ length: 1400 }, (_, i) => '`'.repeat(i)).join('a'), 'one backtick': '`a'.repeat(N / 2),
  'open brackets': '['.repeat(N), 'closed brackets': ']'.repeat(N), 'brackets and parentheses': '[a]('.repeat(N / 4), 'half targets': '[a](<b'.repeat(N / 6), 'titles': '[a](b "'.repeat(N / 7),
  'images in images': '!['.repeat(N / 4) + '](https://a)'.repeat(N / 24), 'links': '[a](https://x.example) '.repeat(N / 23), 'addresses': 'https://'.repeat(N / 8), 'an address with brackets': `https://x/${')'.repeat(N)}`,
  'angles': '<https://'.repeat(N / 9), 'entities': '&amp'.repeat(N / 4), 'escapes': '\\'.repeat(N), 'hashes': '#'.repeat(N), 'spaces': `${' '.repeat(N)}x`, 'a long line': 'abc '.repeat(N / 4), 'tabs': '\t'.repeat(N), 'objects': `{${'"a":'.repeat(N / 4)}`,
};

// A million characters of any kind are drawn within seconds, with a bounded number of
// elements and levels.
see('hostile text is drawn in linear time', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  for (const [name, text] of Object.entries(HOSTILE)) {
    const { ms, elements, depth, length } = await page.evaluate(async (source) => {
      const { drawMarkdown } = await import('/ui/markdown.js');
      const began = performance.now();
      const node = drawMarkdown(source);
      const took = performance.now() - began;
      const depths = new Map([[node, 0]]);
      for (const element of node.querySelectorAll('*')) depths.set(element, depths.get(element.parentNode) + 1);
      const deepest = Math.max(...[...depths.values()].slice(0, 50_000));
      return { ms: took, elements: node.querySelectorAll('*').length, depth: deepest, length: node.textContent.length };
    }, text);
    assert.ok(ms < 5000, `${name} took ${ms} ms`);
    assert.ok(elements < 25_000, `${name} has ${elements} elements`);
    assert.ok(depth < 60, `${name} has ${depth} levels`);
    if (process.env.VERBOSE) console.log(name, Math.round(ms), 'ms', elements, depth, length);
  }
}, { hash: '/#writer' });

// Drawing a long response in chunks takes about linear time: four times the text takes at
// most about eight times as long, not sixteen.
see('a long response is not redrawn for each chunk', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  const costs = await page.evaluate(async () => {
    const { Markdown } = await import('/ui/markdown.js');
    const paragraph = 'Some **bold** text with `code` and [a link](https://x.example), again and again. '.repeat(4);
    const run = async (paragraphs, joint) => {
      const source = Array(paragraphs).fill(paragraph).join(joint);
      const view = new Markdown(document.createElement('div'));
      let drawing = 0;
      view.around = (work) => {
        const began = performance.now();
        work();
        drawing += performance.now() - began;
      };
      const began = performance.now();
      for (let at = 0; at < source.length; at += 200) {
        view.append(source.slice(at, at + 200));
        if (at % 2000 === 0) await new Promise((done) => setTimeout(done, 4));
      }
      const total = performance.now() - began;
      view.finish(source);
      return { drawing, total };
    };
    return { blocks: await run(1200, '\n\n'), one: await run(1200, '\n') };
  });
  for (const [name, { drawing, total }] of Object.entries(costs)) assert.ok(drawing < total / 2, `${name}: drawing took ${drawing} of ${total} ms`);
}, { hash: '/#writer' });

see('a Markdown response is streamed without flicker', async (page) => {
  await page.waitForSelector('.node');
  await page.evaluate(() => {
    window.moved = 0;
    window.shrunk = 0;
    let height = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.moved += e.hadRecentInput ? 0 : e.value; })).observe({ type: 'layout-shift' });
    const look = () => {
      const now = document.querySelector('.md')?.offsetHeight ?? 0;
      if (now < height - 30) window.shrunk++;
      height = now;
      requestAnimationFrame(look);
    };
    look();
  });
  await sendMessage(page, 'What is the refund policy?');
  await page.waitForSelector('.md .task');
  await idle(page);
  assert.equal(await page.locator('.md h4:text("Refund policy")').count(), 1);
  assert.equal(await page.locator('.md ol > li').count(), 2);
  assert.equal(await page.locator('.md td').count(), 4);
  assert.match(await page.textContent('.md pre code'), /# <b>not bold<\/b>/);
  assert.ok(await page.evaluate(() => window.moved) < 0.01, 'the page moved');
  assert.equal(await page.evaluate(() => window.shrunk), 0, 'the response shrank');
  await shot(page, 'page markdown');
  await sendMessage(page, '**user** text stays <b>plain</b>');
  await page.waitForSelector('.event.mine:has-text("**user** text stays <b>plain</b>")');
  await idle(page);
  await sendMessage(page, 'as json');
  await page.waitForSelector('.md pre code:has-text("a*b*c")');
}, { hash: '/#writer' });
