package main

// An account is what was said in one session, and shown of it to whom, to be
// held against what is stored.
type sessionRecord struct {
	clients []*retryingClient
}

// A verdict counts what must not be.
type violations struct {
	lost       int // acknowledged, and not stored
	duplicated int // stored more than once, or done more than once
	mixed      int // events of one turn between those of another
	unanswered int // turns without what belongs to them
}

func (v *violations) add(o violations) {
	v.lost += o.lost
	v.duplicated += o.duplicated
	v.mixed += o.mixed
	v.unanswered += o.unanswered
}

// compareEvents compares an account with the events of its session.
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

// checkTurn looks at the turn of one sentence: one message, one call and its
// response where it takes one, one answer. A turn that was cut off and resumed
// may lie around the turns of others, in as many pieces more as it was resumed.
func (s *message) checkTurn(events []event) violations {
	var messages, calls, responses, answers, pieces int
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
			pieces++
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
	v.mixed = countAbove(pieces, 1+s.resumes)
	if messages == 0 || answers == 0 || calls < wantCalls || responses < wantCalls {
		v.unanswered = 1
	}
	return v
}

// countAbove is by how much n is greater than most.
func countAbove(n, limit int) int { return max(0, n-limit) }
