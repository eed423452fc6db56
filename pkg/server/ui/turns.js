// Derives from the stored events whether the last turn is complete. Chunks of an
// interrupted response are not stored, so a turn without a final event was interrupted.

import { isLive } from './live_events.js';
import { keepVisible, responsesOf, partsOf } from './turn_tree.js';

/**
 * findOpenTurn returns the last turn if it failed or was interrupted, otherwise null.
 * message is the user's message if the turn can be repeated with it.
 */
export function findOpenTurn(events) {
  const visible = keepVisible(events);
  const last = visible.findLast(hasContent);
  if (!last) return null;
  const turn = visible.filter((e) => e.invocationId === last.invocationId);
  if (turn.some(isLive)) return null; // it ended when the user stopped to talk
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

/** isQuestionOpen reports whether a call still waits for an answer. */
export function isQuestionOpen(events, callId) {
  return !keepVisible(events).some((e) => e.author === 'user' && responsesOf(e).some((r) => r.id === callId));
}

// An abort marks the end of an interrupted turn, which did not fail.
const hasFailed = (event) => !!(event.errorCode || event.errorMessage) && event.errorCode !== 'INVOCATION_ABORTED';
const hasContent = (event) => !event.partial && (!!event.content?.parts?.length || event.output !== undefined || hasFailed(event));
const callsOf = (event) => partsOf(event, 'functionCall');

// isFinal is ADK's is_final_response, extended by calls that wait for the user.
function isFinal(event, turn) {
  if (event.author === 'user') return false;
  if (event.longRunningToolIds?.length || event.actions?.skipSummarization || event.actions?.escalate) return true;
  const waiting = new Set(turn.flatMap((e) => e.longRunningToolIds ?? []));
  const responses = responsesOf(event);
  if (responses.length) return responses.every((r) => waiting.has(r.id));
  return !callsOf(event).length;
}
