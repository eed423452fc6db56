package runtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// Memory estimates for a view's parts.
const (
	pointerBytes = 16  // in a growing slice
	siteBytes    = 128 // a call site with its map entry
	partBytes    = 256
)

// shortHistory is the number of events up to which building the contents is faster than looking
// them up.
const shortHistory = 8

// contentBytes estimates the memory for a content that was built for a view.
func contentBytes(c *genai.Content) int64 {
	bytes := int64(partBytes)
	for _, p := range c.Parts {
		bytes += partBytes + int64(len(p.Text))
	}
	return bytes
}

// isEmpty reports whether a content has nothing for a model. Calls and
// responses count even when they are marked as thoughts.
func isEmpty(c *genai.Content) bool {
	if c == nil || c.Role == "" {
		return true
	}
	for _, p := range c.Parts {
		if p.FunctionCall != nil || p.FunctionResponse != nil {
			return false
		}
		if !p.Thought && (p.Text != "" || len(p.ThoughtSignature) > 0 || p.InlineData != nil || p.FileData != nil && !isAudioReference(p) || p.ExecutableCode != nil || p.CodeExecutionResult != nil) {
			return false
		}
	}
	return true
}

// isAudioReference reports whether a part refers to a live conversation's recording, which models
// do not read: they read its transcript.
func isAudioReference(p *genai.Part) bool {
	return model.IsAudio(p) && strings.HasPrefix(p.FileData.FileURI, "artifact://")
}

// isFrameworkEvent reports whether a content is a request for human input or
// its answer, which models do not see.
func isFrameworkEvent(c *genai.Content) bool {
	if c == nil {
		return false
	}
	for _, p := range c.Parts {
		var name, id string
		switch {
		case p.FunctionCall != nil:
			name, id = p.FunctionCall.Name, p.FunctionCall.ID
		case p.FunctionResponse != nil:
			name, id = p.FunctionResponse.Name, p.FunctionResponse.ID
		default:
			continue
		}
		switch name {
		case "adk_framework", "adk_request_credential", "adk_request_confirmation":
			return true
		}
		if isNodeConfirmation(name, id) {
			return true
		}
	}
	return false
}

// withoutOwnIDs removes the IDs that the runtime assigned from calls and
// responses. A content without any is returned unchanged.
func withoutOwnIDs(c *genai.Content) *genai.Content {
	var parts []*genai.Part
	for i, p := range c.Parts {
		bare := withoutOwnID(p)
		if bare == p {
			continue
		}
		if parts == nil {
			parts = slices.Clone(c.Parts)
		}
		parts[i] = bare
	}
	if parts == nil {
		return c
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

func withoutOwnID(p *genai.Part) *genai.Part {
	switch {
	case p.FunctionCall != nil && strings.HasPrefix(p.FunctionCall.ID, ownIDPrefix):
		call := *p.FunctionCall
		call.ID = ""
		q := *p
		q.FunctionCall = &call
		return &q
	case p.FunctionResponse != nil && strings.HasPrefix(p.FunctionResponse.ID, ownIDPrefix):
		resp := *p.FunctionResponse
		resp.ID = ""
		q := *p
		q.FunctionResponse = &resp
		return &q
	}
	return p
}

// mergeResponses returns the older response content with the newer one's parts: a response with the
// same ID is replaced, others are appended.
func mergeResponses(old, now *genai.Content) *genai.Content {
	merged := &genai.Content{Role: old.Role, Parts: slices.Clone(old.Parts)}
	places := make(map[responseKey]int, len(merged.Parts))
	for i, p := range slices.Backward(merged.Parts) {
		if p.FunctionResponse != nil {
			places[newResponseKey(p.FunctionResponse)] = i
		}
	}
	for _, p := range now.Parts {
		if p.FunctionResponse == nil {
			merged.Parts = append(merged.Parts, p)
			continue
		}
		key := newResponseKey(p.FunctionResponse)
		if i, found := places[key]; found {
			merged.Parts[i] = p
			continue
		}
		places[key] = len(merged.Parts)
		merged.Parts = append(merged.Parts, p)
	}
	return merged
}

// A responseKey identifies a response's call: its ID, or else its name.
type responseKey struct{ id, name string }

func newResponseKey(f *genai.FunctionResponse) responseKey {
	if f.ID != "" {
		return responseKey{id: f.ID}
	}
	return responseKey{name: f.Name}
}

// orderResponses returns a content whose responses to calls to one tool are in call order, with
// placeholders for calls before them: without the IDs that the runtime assigned, models match them
// by their order.
func (v *contentsView) orderResponses(site *callSite, c *genai.Content) *genai.Content {
	if v.keepIDs || len(site.calls) < 2 {
		return c
	}
	answers := map[string]*genai.Part{}
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			answers[p.FunctionResponse.ID] = p
		}
	}
	ordered := &genai.Content{Role: c.Role}
	done := map[string]bool{} // tool names
	for _, p := range c.Parts {
		r := p.FunctionResponse
		if r == nil || !strings.HasPrefix(r.ID, ownIDPrefix) {
			ordered.Parts = append(ordered.Parts, p)
		} else if !done[r.Name] {
			done[r.Name] = true
			ordered.Parts = append(ordered.Parts, site.responsesOf(r.Name, answers)...)
		}
	}
	if slices.Equal(ordered.Parts, c.Parts) {
		return c
	}
	return ordered
}

// responsesOf returns the responses to calls to a tool up to the last one that has one, in call
// order.
func (s *callSite) responsesOf(name string, answers map[string]*genai.Part) []*genai.Part {
	var parts []*genai.Part
	last := 0
	for _, c := range s.calls {
		if c.Name != name || !strings.HasPrefix(c.ID, ownIDPrefix) {
			continue
		}
		if p := answers[c.ID]; p != nil {
			parts = append(parts, p)
			last = len(parts)
		} else {
			parts = append(parts, &genai.Part{FunctionResponse: model.PendingResponse(c)})
		}
	}
	return parts[:last]
}

// insertBeforeUserTail inserts contents before the trailing user contents, where a static
// instruction's contents belong.
func insertBeforeUserTail(contents, added []*genai.Content) []*genai.Content {
	if len(added) == 0 {
		return contents
	}
	i := len(contents)
	for i > 0 && contents[i-1].Role == genai.RoleUser && len(model.ResponsesOf(contents[i-1])) == 0 {
		i--
	}
	return slices.Concat(contents[:i], added, contents[i:])
}

// presentForeign returns another agent's event as user content, or nil if it
// has nothing to present (adk-python contents.py
// _present_other_agent_message).
func presentForeign(ev *session.Event) *genai.Content {
	content := model.UserText("For context:")
	content.Parts = slices.Grow(content.Parts, len(ev.Content.Parts))
	for _, p := range ev.Content.Parts {
		if q := presentPart(ev.Author, p); q != nil {
			content.Parts = append(content.Parts, q)
		}
	}
	if len(content.Parts) == 1 {
		return nil
	}
	return content
}

func presentPart(author string, p *genai.Part) *genai.Part {
	switch {
	case p.Thought:
		return nil
	case strings.TrimSpace(p.Text) != "":
		return &genai.Part{Text: "[" + author + "] said: " + p.Text}
	case p.FunctionCall != nil:
		return &genai.Part{Text: fmt.Sprintf("[%s] called tool `%s` with parameters: %s", author, p.FunctionCall.Name, compactJSON(p.FunctionCall.Args))}
	case p.FunctionResponse != nil:
		return &genai.Part{Text: fmt.Sprintf("[%s] `%s` tool returned result: %s", author, p.FunctionResponse.Name, compactJSON(p.FunctionResponse.Response))}
	case p.InlineData != nil, p.FileData != nil, p.ExecutableCode != nil, p.CodeExecutionResult != nil:
		return p
	}
	return nil
}

// compactJSON returns a value as JSON for the model, or in Go's format if JSON
// cannot represent it.
func compactJSON(m map[string]any) string {
	if m == nil {
		return "{}"
	}
	return jsonText(m)
}

func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A transcript is a transcription sequence from one speaker in a live conversation. The zero value
// is empty.
type transcript struct {
	author, role, text string
	// contentCount is how many contents it has: zero when it is blank.
	contentCount int
	// bytes estimates their memory.
	bytes int64
}

// readTranscription returns an event's transcription if it has no content.
func readTranscription(ev *session.Event) transcript {
	s := transcript{author: ev.Author}
	if !isEmpty(ev.Content) {
		return s
	}
	switch in, out := ev.InputTranscription, ev.OutputTranscription; {
	case in != nil && in.Text != "":
		s.role, s.text = genai.RoleUser, in.Text
	case out != nil && out.Text != "":
		s.role, s.text = genai.RoleModel, out.Text
	}
	return s
}

// isLive reports whether an event comes from a live conversation. An agent
// sees its own events of it as another agent's.
func isLive(ev *session.Event) bool { return ev.LiveSessionID != "" }

// callIDKeeper is implemented by models whose requests keep call IDs that the
// runtime assigned. For other models these IDs are omitted.
type callIDKeeper interface{ KeepsCallIDs() bool }

func keepsIDs(llm model.LLM) bool {
	k, ok := llm.(callIDKeeper)
	return ok && k.KeepsCallIDs()
}

// summaryAuthor is the author of summaries. It is not an agent's name, so every agent sees
// summaries as context from others.
const summaryAuthor = "model"

// rewritesPast reports whether an event changes which earlier events are
// visible.
func rewritesPast(ev *session.Event) bool {
	return ev.Actions.RewindBeforeInvocationID != "" || isCompaction(ev)
}

func isCompaction(ev *session.Event) bool {
	return ev.Actions.Compaction != nil && ev.Actions.Compaction.CompactedContent != nil && !ev.Provenance.Imported
}

// eventSeconds returns an event's time in seconds, as in compactions.
func eventSeconds(ev *session.Event) float64 { return float64(ev.Timestamp.UnixMicro()) / 1e6 }

// applyCompactions replaces events by their summaries (adk-python contents.py
// _process_compaction_events). A compaction covers only events before it, and none with open calls.
// Its summary is placed at the last of them, but before the first event in between that stays, so
// that the conversation does not begin with a call. It also returns the covered events.
func applyCompactions(events []*session.Event) (seen, covered []*session.Event) {
	isCovered := make([]bool, len(events))
	current := currentCompactions(events)
	places := map[int][2]int{} // by summary: its first event, and the one after its last
	var open openCalls
	for _, k := range current {
		c := events[k].Actions.Compaction
		n := k // the events until the last one that is not after the end
		for n > 0 && eventSeconds(events[n-1]) > c.EndTimestamp {
			n--
		}
		isOpen := open.readEvents(events[:n])
		first, end := k, k
		for i, ev := range events[:n] {
			if t := eventSeconds(ev); isCompaction(ev) || t < c.StartTimestamp || t > c.EndTimestamp {
				continue
			}
			first = min(first, i)
			if !isOpen[i] {
				isCovered[i], end = true, i+1
			}
		}
		places[k] = [2]int{first, end}
	}
	summaries := map[int][]*session.Event{}
	for _, k := range current {
		at, end := places[k][0], places[k][1]
		for at < end && (isCovered[at] || isCompaction(events[at])) {
			at++
		}
		summaries[at] = append(summaries[at], summaryEvent(events[k]))
	}
	for i, ev := range events {
		seen = append(seen, summaries[i]...)
		switch {
		case isCovered[i]:
			covered = append(covered, ev)
		case !isCompaction(ev):
			seen = append(seen, ev)
		}
	}
	return append(seen, summaries[len(events)]...), covered
}

// currentCompactions returns the indexes of the compactions in effect: one
// whose time range lies within another is omitted, of two with equal ranges
// the older.
func currentCompactions(events []*session.Event) []int {
	var all []int
	for i, ev := range events {
		if isCompaction(ev) {
			all = append(all, i)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(i int) bool {
		c := events[i].Actions.Compaction
		return slices.ContainsFunc(all, func(j int) bool {
			other := events[j].Actions.Compaction
			within := other.StartTimestamp <= c.StartTimestamp && c.EndTimestamp <= other.EndTimestamp
			equal := other.StartTimestamp == c.StartTimestamp && c.EndTimestamp == other.EndTimestamp
			return i != j && within && (!equal || j > i)
		})
	})
}

func summaryEvent(ev *session.Event) *session.Event {
	c := ev.Actions.Compaction
	s := &session.Event{
		ID: ev.ID, InvocationID: ev.InvocationID, Author: summaryAuthor,
		Timestamp: time.UnixMicro(int64(c.EndTimestamp * 1e6)).UTC(),
	}
	s.Content = &genai.Content{Role: genai.RoleModel, Parts: c.CompactedContent.Parts}
	return s
}

type liveKey struct{}

// liveEvents returns the events that were not rewound, including compactions.
// It reads each event once.
func liveEvents(h *session.History) []*session.Event {
	type live struct {
		seen   int
		events []*session.Event
	}
	v := h.Derive(liveKey{}, func(last any, events []*session.Event) (any, int64) {
		l, _ := last.(live)
		for ; l.seen < len(events); l.seen++ {
			if events[l.seen].Actions.RewindBeforeInvocationID != "" {
				l.events = session.WithoutRewound(events[:l.seen+1])
			} else {
				l.events = append(l.events, events[l.seen])
			}
		}
		return l, pointerBytes * int64(len(l.events))
	})
	return slices.Clip(v.(live).events)
}

// countTurns counts the user messages in a history, without answers to function calls. It reads
// each event once.
func countTurns(h *session.History) int {
	if events := h.Events(); len(events) <= shortHistory {
		return turnCount{}.countEvents(events).turns
	}
	v := h.Derive(turnsKey{}, func(last any, events []*session.Event) (any, int64) {
		c, _ := last.(turnCount)
		return c.countEvents(events), pointerBytes
	})
	return v.(turnCount).turns
}

type turnsKey struct{}

type turnCount struct{ seen, turns int }

func (c turnCount) countEvents(events []*session.Event) turnCount {
	for _, ev := range events[c.seen:] {
		if ev.Author == session.UserAuthor && ev.Content != nil && len(ev.Responses()) == 0 {
			c.turns++
		}
	}
	c.seen = len(events)
	return c
}
