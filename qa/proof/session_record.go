package main

// A sessionRecord holds the messages that clients sent in one session and the events
// that they received, to compare them with the stored session.
type sessionRecord struct {
	clients []*retryingClient
}

// violations counts the broken promises.
type violations struct {
	lost       int // acknowledged but not stored
	duplicated int // stored or executed more than once
	mixed      int // one turn's events between another's
	unanswered int // turns with a missing message, call, response or answer
}

func (v *violations) add(o violations) {
	v.lost += o.lost
	v.duplicated += o.duplicated
	v.mixed += o.mixed
	v.unanswered += o.unanswered
}

func (a sessionRecord) compareEvents(events []event) violations {
	var v violations
	ids := map[string]bool{}
	for _, ev := range events {
		ids[ev.ID] = true
	}
	v.duplicated = len(events) - len(ids)
	for _, s := range a.clients {
		v.lost += countMissingIDs(s.seen, events)
		for _, msg := range s.messages {
			v.add(msg.checkTurn(events))
		}
	}
	return v
}

// checkTurn checks a message's turn: one message, one call and one response if it uses the tool,
// and one answer. The events of a resumed turn may be interleaved with other turns, with one more
// segment for each resumption.
func (s *message) checkTurn(events []event) violations {
	var messages, calls, responses, answers, segments int
	var v violations
	invocation, inside := "", false
	for _, ev := range events {
		if ev.Author == "user" && ev.text() == s.text {
			messages++
			invocation = ev.InvocationID
		}
		if wasInside := inside; invocation != ev.InvocationID {
			inside = false
			continue
		} else if inside = true; !wasInside {
			segments++
		}
		for _, p := range ev.Content.Parts {
			switch {
			case p.Call != nil:
				calls++
			case p.Response != nil:
				responses++
			case p.Text == s.wantAnswer():
				answers++
			}
		}
	}
	wantCalls := 0
	if s.callsTool() {
		wantCalls = 1
	}
	v.duplicated = countAbove(messages, 1) + countAbove(calls, wantCalls) + countAbove(responses, wantCalls) + countAbove(answers, 1)
	v.mixed = countAbove(segments, 1+s.resumes)
	if messages == 0 || answers == 0 || calls < wantCalls || responses < wantCalls {
		v.unanswered = 1
	}
	return v
}

// countAbove returns by how much n exceeds the limit.
func countAbove(n, limit int) int { return max(0, n-limit) }
