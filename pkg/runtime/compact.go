package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A compaction writes an event with a summary, and changes no other event: contents replace those that
// its time range covers (applyCompactions), and a rewind before it brings them back.
//
//	when                            range
//	after a run, compactAfter       all invocations since the last summary, once there are Interval of
//	                                them, and Overlap earlier ones again; their summaries stay
//	before a model call,            all but the latest EventRetention events, once the prompt has
//	compactBefore, and after a run  TokenThreshold tokens; it replaces earlier summaries in its range
//
// The threshold goes first: a run that it has shortened needs no window. Tokens are those that the model
// reported for its last prompt, and an estimate for the events after it.
//
// Three rules keep the conversation valid. A range has no event of an open call (open_calls.go), because a
// call without its response, or the reverse, is an invalid request. It ends before the first event that
// is not older than a later one, because a summary names its events by time. And it never ends with the
// message that the model is about to answer: compactBefore keeps at least one event.
//
// A failure is logged and changes nothing; the next run tries again.

// newCompactor returns the compactor of an app; nil without a config.
func newCompactor(opts *AppOptions, top *node) (*compactor, error) {
	if opts.Compaction == nil {
		return nil, nil
	}
	c := &compactor{*opts.Compaction, opts.Summarizer}
	if c.Interval == 0 && c.TokenThreshold == 0 {
		c.Interval = DefaultCompactionInterval
	}
	if c.Prompt == "" {
		c.Prompt = defaultSummaryPrompt
	}
	if _, ok := top.agent.(*LLMAgent); c.llm == nil && ok {
		c.llm = top.llm
	}
	if c.llm == nil {
		return nil, fmt.Errorf("no model to summarize events: the root agent %s has none", top.agent.Name())
	}
	return c, nil
}

// A compaction replaces session events by summaries, for one agent in a run.
type compaction struct{ *Invocation }

// compactAfter compacts the history by the token threshold, or else the
// invocations since the last summary if there are enough of them (adk-python
// apps/compaction.py). A failure is logged and changes nothing.
func (inv compaction) compactAfter(ctx context.Context) {
	c, h := inv.run.app.compactor, inv.run.sess.History
	compacted := false // in this invocation
	for _, ev := range slices.Backward(liveEvents(h)) {
		if compacted = isCompaction(ev); compacted || ev.IsFromUser() && ev.InvocationID == inv.run.id {
			break
		}
	}
	if !compacted && inv.compactTokens(ctx, c.EventRetention) {
		return
	}
	inv.storeSummary(ctx, c.slidingWindow(liveEvents(h)))
}

// compactTokens summarizes all but the latest events if the prompt has reached
// the token threshold. It reports whether it did.
func (inv compaction) compactTokens(ctx context.Context, retain int) bool {
	c := inv.run.app.compactor
	if c.TokenThreshold == 0 {
		return false
	}
	events := liveEvents(inv.run.sess.History)
	tokens := inv.estimatePromptTokens(events)
	if tokens < c.TokenThreshold {
		return false
	}
	s := thresholdRange(events, retain)
	if s.conversationText() == "" {
		inv.logFutileCompaction(ctx, tokens, events)
		return false
	}
	return inv.storeSummary(ctx, s)
}

// futileKey keys the latest compaction end at which logFutileCompaction logged.
type futileKey struct{}

// logFutileCompaction logs that the prompt has reached the token threshold and that no summary can
// shorten it. It logs once between two summaries in a session.
func (inv compaction) logFutileCompaction(ctx context.Context, tokens int, events []*session.Event) {
	logged := false
	inv.run.sess.History.Derive(futileKey{}, func(last any, events []*session.Event) (any, int64) {
		end := lastCompactionEnd(events)
		logged = last == end
		return end, pointerBytes
	})
	if logged {
		return
	}
	c := inv.run.app.compactor
	inv.run.logger().WarnContext(ctx, "prompt exceeds the token threshold, but no event can be summarized",
		"tokens", tokens, "token_threshold", c.TokenThreshold, "event_retention_size", c.EventRetention,
		"events_of_open_calls", len(findOpenEvents(withoutCompactions(events))))
}

// estimatePromptTokens returns the size of the agent's latest prompt in tokens, as reported by the
// model since the last summary, or else an estimate of its next prompt. Other agents' prompts do
// not count, because they have other instructions, tools and contents (adk-python since 2.10); an
// agent without a model takes the latest one.
func (inv compaction) estimatePromptTokens(events []*session.Event) int {
	a, hasModel := inv.node.agent.(*LLMAgent)
	for i := len(events) - 1; i >= 0 && !isCompaction(events[i]); i-- {
		ev := events[i]
		if ev.UsageMetadata == nil || ev.Provenance.Imported || hasModel && ev.Author != a.Name() {
			continue
		}
		if n := ev.UsageMetadata.PromptTokenCount; n > 0 {
			return int(n)
		}
	}
	include := IncludeDefault
	if hasModel {
		include = a.opts.IncludeContents
	}
	contents, err := inv.buildContents(include)
	if err != nil {
		return 0 // the model call reports the error
	}
	chars := 0
	for _, c := range contents {
		for _, p := range c.Parts {
			chars += utf8.RuneCountInString(p.Text)
			switch { // adk-python since 2.8
			case p.FunctionCall != nil:
				chars += utf8.RuneCountInString(p.FunctionCall.Name) + utf8.RuneCountInString(jsonText(p.FunctionCall.Args))
			case p.FunctionResponse != nil:
				chars += utf8.RuneCountInString(p.FunctionResponse.Name) + utf8.RuneCountInString(jsonText(p.FunctionResponse.Response))
			}
		}
	}
	return chars / 4
}

// storeSummary stores a range's summary, and reports whether it did. The event is stored but not
// yielded.
func (inv compaction) storeSummary(ctx context.Context, s compactionRange) bool {
	if len(s.events) == 0 {
		return false
	}
	r := inv.run
	ev, err := inv.buildSummary(ctx, s)
	if err == nil && ev != nil {
		r.stampMetadata(ev)
		err = r.commitEvent(ctx, ev)
	}
	if err != nil {
		r.logger().WarnContext(ctx, "compaction failed", "error", err)
		return false
	}
	return ev != nil
}

// buildSummary calls the model and returns the summary event; nil when the
// range has no text.
func (inv compaction) buildSummary(ctx context.Context, s compactionRange) (*session.Event, error) {
	r := inv.run
	text := s.conversationText()
	if text == "" {
		return nil, nil
	}
	prompt := strings.ReplaceAll(r.app.compactor.Prompt, ConversationHistory, text)
	origin := inv.requestOrigin()
	origin.Agent, origin.UserText = "", prompt // no agent calls the model
	resp, err := r.app.compactor.askSummarizer(ctx, r, prompt, origin)
	if err != nil {
		return nil, err
	}
	ev := &session.Event{
		ID: r.host.newID(), InvocationID: r.host.newID(), Author: session.UserAuthor, Timestamp: r.host.now(),
	}
	ev.UsageMetadata = resp.UsageMetadata
	start, end := s.timeBounds()
	ev.Actions.Compaction = &session.Compaction{
		StartTimestamp: start, EndTimestamp: end, CompactedContent: model.ModelText(model.TextOf(resp.Content)),
	}
	return ev, nil
}

// askSummarizer returns the model's response, which has text.
func (c *compactor) askSummarizer(ctx context.Context, r *run, prompt string, origin model.Origin) (*model.Response, error) {
	req := &model.Request{
		Model: c.llm.Name(), Contents: []*genai.Content{model.UserText(prompt)},
		Config: &genai.GenerateContentConfig{}, Origin: origin,
	}
	var last *model.Response
	var failure error
	generate := func(ctx context.Context, req *model.Request, yield responseFunc) { c.llm.Generate(ctx, req)(yield) }
	r.traceModelCall(ctx, req, "", generate, func(resp *model.Response, err error) bool {
		if failure = err; err == nil && !resp.Partial {
			last = resp
		}
		return err == nil
	})
	r.countResponse(origin.Agent, last)
	switch {
	case failure != nil:
		return nil, fmt.Errorf("model %s: %w", c.llm.Name(), failure)
	case last != nil && last.ErrorCode != "":
		return nil, fmt.Errorf("model %s: %s %s", c.llm.Name(), last.ErrorCode, last.ErrorMessage)
	case last == nil || model.TextOf(last.Content) == "":
		return nil, errors.New("the model returned no text")
	}
	return last, nil
}

// A compactionRange is what one summary replaces: events, and the earlier summaries within their
// time. Events with open calls are never part of it (open_calls.go).
type compactionRange struct {
	earlier []*session.Compaction
	events  []*session.Event
}

// conversationText returns the conversation for the summarizing model, one
// line per text. (adk-python joins them with a backslash and an n.)
func (s compactionRange) conversationText() string {
	var lines []string
	for _, c := range s.earlier {
		lines = append(lines, summaryAuthor+": "+model.TextOf(c.CompactedContent))
	}
	for _, ev := range s.events {
		if ev.Content == nil {
			continue
		}
		for _, p := range ev.Content.Parts {
			if p.Text != "" && !p.Thought {
				lines = append(lines, ev.Author+": "+p.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// timeBounds returns the times of the first and the last event, in seconds.
func (s compactionRange) timeBounds() (start, end float64) {
	start, end = math.Inf(1), math.Inf(-1)
	for _, ev := range s.events {
		start, end = min(start, eventSeconds(ev)), max(end, eventSeconds(ev))
	}
	for _, c := range s.earlier {
		start = min(start, c.StartTimestamp)
	}
	return start, end
}

// slidingWindow returns the range with all invocations since the last summary if there are enough,
// and with earlier ones for the overlap. The range also has older events of calls that were open at
// the last summary and are answered now.
func (c *compactor) slidingWindow(events []*session.Event) compactionRange {
	last := lastCompactionEnd(events)
	all := withoutCompactions(events)
	if c.Interval == 0 || len(freshInvocations(all, last)) < c.Interval {
		return compactionRange{}
	}
	n, open := compactableEvents(all, len(all))
	closed := withoutOpen(all[:n], open)
	fresh := freshInvocations(closed, last)
	if len(fresh) < c.Interval {
		return compactionRange{} // the others only wait
	}
	at := c.windowStart(closed, fresh)
	s := compactionRange{events: closed[at:]}
	if late := withoutCovered(closed[:at], events); len(late) > 0 {
		s.events = slices.Concat(late, s.events)
		start, _ := s.timeBounds()
		s.earlier = s.earlierSummaries(events, start, eventSeconds(closed[at]))
	}
	return s
}

// freshInvocations returns the invocations with an event after a time.
func freshInvocations(events []*session.Event, last float64) map[string]bool {
	fresh := map[string]bool{}
	for _, ev := range events {
		if eventSeconds(ev) > last {
			fresh[ev.InvocationID] = true
		}
	}
	return fresh
}

// windowStart returns the index where the overlapping invocations before the first fresh one begin.
func (c *compactor) windowStart(events []*session.Event, fresh map[string]bool) int {
	var starts []int
	known := map[string]bool{}
	for i, ev := range events {
		if known[ev.InvocationID] {
			continue
		}
		known[ev.InvocationID] = true
		starts = append(starts, i)
		if fresh[ev.InvocationID] {
			break
		}
	}
	return starts[max(0, len(starts)-1-c.Overlap)]
}

// thresholdRange returns the range for the token threshold: all history that models see, earlier
// summaries included, except the latest events.
func thresholdRange(events []*session.Event, retain int) compactionRange {
	all := withoutCompactions(events)
	n, open := compactableEvents(all, max(0, len(all)-retain))
	s := compactionRange{events: withoutCovered(withoutOpen(all[:n], open), events)}
	s.earlier = s.earlierSummaries(events, math.Inf(-1), math.Inf(1))
	return s
}

// earlierSummaries returns the summaries that the range replaces: they end within it, and
// start between two times.
func (s compactionRange) earlierSummaries(events []*session.Event, from, before float64) []*session.Compaction {
	_, end := s.timeBounds()
	var earlier []*session.Compaction
	for _, k := range currentCompactions(events) {
		c := events[k].Actions.Compaction
		if from <= c.StartTimestamp && c.StartTimestamp < before && c.EndTimestamp <= end {
			earlier = append(earlier, c)
		}
	}
	return earlier
}

// lastCompactionEnd returns the latest compaction's end, or 0.
func lastCompactionEnd(events []*session.Event) (end float64) {
	for _, ev := range events {
		if isCompaction(ev) {
			end = max(end, ev.Actions.Compaction.EndTimestamp)
		}
	}
	return end
}

func withoutCompactions(events []*session.Event) []*session.Event {
	return slices.DeleteFunc(slices.Clone(events), func(ev *session.Event) bool { return ev.Actions.Compaction != nil })
}

func withoutOpen(events []*session.Event, open map[int]bool) []*session.Event {
	var closed []*session.Event
	for i, ev := range events {
		if !open[i] {
			closed = append(closed, ev)
		}
	}
	return closed
}

// withoutCovered returns the events that no summary in the history covers.
func withoutCovered(some, history []*session.Event) []*session.Event {
	_, covered := applyCompactions(history)
	if len(covered) == 0 {
		return some
	}
	isCovered := make(map[*session.Event]bool, len(covered))
	for _, ev := range covered {
		isCovered[ev] = true
	}
	return slices.DeleteFunc(slices.Clone(some), func(ev *session.Event) bool { return isCovered[ev] })
}
