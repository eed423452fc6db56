// What the stored events say about turns: what was rewound, and whether the last
// turn came to its end. An answer that was cut off leaves no mark of its own: no
// chunk of it is stored. So a turn without a final event was interrupted.

/** keepVisible leaves out what a rewind took back. */
export function keepVisible(events) {
  const visible = [];
  for (const event of events) {
    const before = event.actions?.rewindBeforeInvocationId;
    const after = event.provenance?.rewindAfterEventId;
    if (after) visible.length = visible.findIndex((e) => e.id === after) + 1 || visible.length;
    else if (before && visible.some((e) => e.invocationId === before)) visible.length = visible.findIndex((e) => e.invocationId === before);
    visible.push(event);
  }
  return visible;
}

/**
 * findOpenTurn is the last turn where it failed or was interrupted, else null. Its
 * message is what the user wrote, where the turn can be repeated with it.
 */
export function findOpenTurn(events) {
  const visible = keepVisible(events);
  const last = visible.findLast(hasContent);
  if (!last) return null;
  const turn = visible.filter((e) => e.invocationId === last.invocationId);
  if (!hasFailed(last) && isFinal(last, turn)) return null;
  const first = turn.find((e) => e.author === 'user' && e.content);
  return {
    hasFailed: hasFailed(last),
    hasAnswer: turn.some((e) => e.author !== 'user' && e.content),
    invocationId: last.invocationId,
    lastEventId: turn.at(-1).id,
    message: first && !responsesOf(first).length ? first.content : null,
  };
}

/** isQuestionOpen says whether a call waits for an answer that nobody gave yet. */
export function isQuestionOpen(events, callId) {
  return !keepVisible(events).some((e) => e.author === 'user' && responsesOf(e).some((r) => r.id === callId));
}

const hasFailed = (event) => !!(event.errorCode || event.errorMessage);
const hasContent = (event) => !event.partial && (!!event.content?.parts?.length || event.output !== undefined || hasFailed(event));
const partsOf = (event, kind) => (event.content?.parts ?? []).map((p) => p[kind]).filter(Boolean);
const callsOf = (event) => partsOf(event, 'functionCall');
const responsesOf = (event) => partsOf(event, 'functionResponse');

// ADK's is_final_response, and calls that wait for a person.
function isFinal(event, turn) {
  if (event.author === 'user') return false;
  if (event.longRunningToolIds?.length || event.actions?.skipSummarization || event.actions?.escalate) return true;
  const waiting = new Set(turn.flatMap((e) => e.longRunningToolIds ?? []));
  const responses = responsesOf(event);
  if (responses.length) return responses.every((r) => waiting.has(r.id));
  return !callsOf(event).length;
}
