package runtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A compactedConversation is a random history with calls that are answered at once, later
// or never, and with requests to a person. Each event has its own text.
type compactedConversation struct {
	random *rand.Rand
	events []*session.Event
	// open are the calls without a final answer.
	open []string
	turn int
}

func (c *compactedConversation) addEvent(author string, parts ...*genai.Part) *session.Event {
	ev := &session.Event{
		ID: fmt.Sprint(len(c.events)), InvocationID: fmt.Sprint("i", c.turn), Author: author,
		Timestamp: time.Unix(int64(len(c.events)-c.random.IntN(2)), 0),
	}
	text := &genai.Part{Text: fmt.Sprintf("<%s>", ev.ID)}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: append([]*genai.Part{text}, parts...)}
	c.events = append(c.events, ev)
	return ev
}

// addTurn adds a turn: a message, and some calls. IDs recur.
func (c *compactedConversation) addTurn() {
	c.turn++
	c.addEvent("user")
	if len(c.open) > 0 && c.random.IntN(3) == 0 {
		at := c.random.IntN(len(c.open))
		c.answerCall(c.open[at])
		c.open = slices.Delete(c.open, at, at+1)
	}
	for range c.random.IntN(3) {
		var calls []*genai.Part
		var ids []string
		for range 1 + c.random.IntN(2) {
			id := fmt.Sprint("call", c.random.IntN(12))
			if slices.Contains(c.open, id) || slices.Contains(ids, id) {
				continue
			}
			ids = append(ids, id)
			calls = append(calls, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "f"}})
		}
		c.addEvent("a", calls...)
		for _, id := range ids {
			switch c.random.IntN(10) {
			case 0:
				c.open = append(c.open, id)
			case 1:
				c.answerCall(id).Actions.RequestedToolConfirmations = map[string]*session.Confirmation{id: {}}
				c.open = append(c.open, id)
			default:
				c.answerCall(id)
			}
		}
	}
	c.addEvent("a")
}

func (c *compactedConversation) answerCall(id string) *session.Event {
	return c.addEvent("a", &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "f"}})
}

// addSummary adds a range's summary: its text, so that nothing is lost.
func (c *compactedConversation) addSummary(s compactionRange) {
	start, end := s.timeBounds()
	c.turn++
	ev := c.addEvent(session.UserAuthor)
	ev.Content = nil
	ev.Actions.Compaction = &session.Compaction{StartTimestamp: start, EndTimestamp: end, CompactedContent: model.ModelText(s.conversationText())}
}

// checkContents checks that each event's text is in the contents, and that calls are there with
// their responses.
func (c *compactedConversation) checkContents(t *testing.T) (visible int) {
	t.Helper()
	seen, _ := applyCompactions(c.events)
	var all strings.Builder
	callers := map[string]int{} // 1 for a visible call, 2 for a covered one
	isSeen := map[string]bool{}
	for _, ev := range seen {
		all.WriteString(ev.Text())
		isSeen[ev.ID] = true
		if ev.Author != summaryAuthor {
			visible++
		}
	}
	for _, ev := range c.events {
		if ev.Content != nil && !strings.Contains(all.String(), ev.Content.Parts[0].Text) {
			t.Fatalf("the text of event %s is lost", ev.ID)
		}
		for _, call := range ev.Calls() {
			callers[call.ID] = 2
			if isSeen[ev.ID] {
				callers[call.ID] = 1
			}
		}
		for _, r := range ev.Responses() {
			if callers[r.ID] == 1 && !isSeen[ev.ID] {
				t.Fatalf("the response %s of event %s is covered, and its call is not", r.ID, ev.ID)
			}
			if callers[r.ID] == 2 && isSeen[ev.ID] {
				t.Fatalf("the call %s is covered, and its response in event %s is not", r.ID, ev.ID)
			}
		}
	}
	return visible
}

// TestCompactionProperty: whatever calls are open, compaction continues. No text is lost, no call
// is separated from its responses, and besides events with open calls only the latest events stay.
func TestCompactionProperty(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &compactedConversation{random: rand.New(rand.NewPCG(seed, 1))}
			sliding := &compactor{CompactionOptions: CompactionOptions{Interval: 1 + c.random.IntN(3), Overlap: c.random.IntN(3)}}
			retain := c.random.IntN(5)
			byTokens := c.random.IntN(2) == 0
			for range 40 {
				c.addTurn()
				s := sliding.slidingWindow(c.events)
				if byTokens {
					s = thresholdRange(c.events, retain)
				}
				if len(s.events) > 0 {
					c.addSummary(s)
				}
				visible := c.checkContents(t)
				open := len(findOpenEvents(withoutCompactions(c.events)))
				// A turn has at most 13 events.
				if most := open + 13*sliding.Interval + retain + 8; visible > most {
					t.Fatalf("%d events stay in turn %d, want at most %d with %d of open calls", visible, c.turn, most, open)
				}
			}
		})
	}
}
