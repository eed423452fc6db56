package main

// An account is what was said in one session, and shown of it to whom, to be
// held against what is stored.
type account struct {
	speakers []*speaker
}

// A verdict counts what must not be.
type verdict struct {
	lost       int // acknowledged, and not stored
	doubled    int // stored more than once, or done more than once
	mixed      int // events of one turn between those of another
	unanswered int // turns without what belongs to them
}

func (v *verdict) add(o verdict) {
	v.lost += o.lost
	v.doubled += o.doubled
	v.mixed += o.mixed
	v.unanswered += o.unanswered
}

// judge compares an account with the events of its session.
func (a account) judge(events []event) verdict {
	var v verdict
	ids := map[string]bool{}
	for _, ev := range events {
		ids[ev.ID] = true
	}
	v.doubled = len(events) - len(ids)
	for _, s := range a.speakers {
		v.lost += missing(s.seen, events)
		for _, it := range s.sentences {
			v.add(it.judge(events))
		}
	}
	return v
}

// judge looks at the turn of one sentence: one message, one call and its
// response where it takes one, one answer. A turn that was cut off and resumed
// may lie around the turns of others, in as many pieces more as it was resumed.
func (s *sentence) judge(events []event) verdict {
	var messages, calls, responses, answers, pieces int
	var v verdict
	invocation, inside := "", false
	for _, ev := range events {
		if ev.Author == "user" && ev.text() == s.text {
			messages++
			invocation = ev.InvocationID
		}
		if was := inside; invocation != ev.InvocationID {
			inside = false
			continue
		} else if inside = true; !was {
			pieces++
		}
		for _, p := range ev.Content.Parts {
			switch {
			case p.Call != nil:
				calls++
			case p.Response != nil:
				responses++
			case p.Text == s.answer():
				answers++
			}
		}
	}
	once := 0
	if s.calls() {
		once = 1
	}
	v.doubled = above(messages, 1) + above(calls, once) + above(responses, once) + above(answers, 1)
	v.mixed = above(pieces, 1+s.resumes)
	if messages == 0 || answers == 0 || calls < once || responses < once {
		v.unanswered = 1
	}
	return v
}

// above is by how much n is greater than most.
func above(n, most int) int { return max(0, n-most) }
