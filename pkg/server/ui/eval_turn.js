// The contents of a turn in an eval set or result: its texts and its tool calls.

/** textOfContent returns the text of a content without thoughts, and its other parts by kind. */
export function textOfContent(content) {
  const parts = Array.isArray(content?.parts) ? content.parts : [];
  return parts.map((p) => (p?.thought ? '' : typeof p?.text === 'string' ? p.text : p ? `[${Object.keys(p).join(', ')}]` : '')).join('');
}

/** readCalls lists the tool calls of a turn with their responses, in both forms of ADK. */
export function readCalls(invocation) {
  const { toolUses = [], toolResponses = [], invocationEvents } = invocation?.intermediateData ?? {};
  const parts = (invocationEvents ?? []).flatMap((e) => e.content?.parts ?? []);
  const calls = invocationEvents ? parts.map((p) => p.functionCall).filter(Boolean) : toolUses;
  const responses = invocationEvents ? parts.map((p) => p.functionResponse).filter(Boolean) : toolResponses;
  return calls.map((call) => ({ name: call.name, args: call.args, response: responses.findLast((r) => (r.id ?? '') === (call.id ?? '') && r.name === call.name)?.response }));
}

const MAX_CALLS = 500;

/**
 * alignCalls pairs the expected calls with the actual ones in order. A row is same or
 * different; a call without a partner is alone in its row.
 */
export function alignCalls(expected, actual) {
  const [a, b] = [expected, actual].map((calls) => calls.slice(0, MAX_CALLS).map((call) => ({ call, key: keyOf(call) })));
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) lengths[i][j] = a[i].key === b[j].key ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const rows = [];
  let [missing, extra] = [[], []];
  const flush = () => {
    rows.push(...pairByName(missing, extra));
    [missing, extra] = [[], []];
  };
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i].key === b[j].key) {
      flush();
      rows.push({ status: 'same', expected: a[i++].call, actual: b[j++].call });
    } else if (i < a.length && (j === b.length || lengths[i + 1][j] >= lengths[i][j + 1])) missing.push(a[i++].call);
    else extra.push(b[j++].call);
  }
  flush();
  return rows;
}

// pairByName pairs calls of the same tool with different arguments.
function pairByName(missing, extra) {
  const left = [...extra];
  const rows = missing.map((expected) => {
    const at = left.findIndex((call) => call.name === expected.name);
    return { status: 'different', expected, actual: at < 0 ? undefined : left.splice(at, 1)[0] };
  });
  return [...rows, ...left.map((actual) => ({ status: 'different', actual }))];
}

const keyOf = (call) => JSON.stringify([call.name, sortKeys(call.args ?? {}, 0)]);

const MAX_DEPTH = 50;

function sortKeys(value, depth) {
  if (value === null || typeof value !== 'object' || depth > MAX_DEPTH) return value;
  if (Array.isArray(value)) return value.map((item) => sortKeys(item, depth + 1));
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sortKeys(value[key], depth + 1)]));
}
