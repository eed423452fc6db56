package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

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

// compactAfter compacts the history by the token threshold, or else the
// invocations since the last summary if there are enough of them (adk-python
// apps/compaction.py). A failure is logged and changes nothing.
func (inv *Invocation) compactAfter(ctx context.Context) {
	c, h := inv.run.app.compactor, inv.run.sess.History
	if !compactedIn(liveEvents(h), inv.run.id) && inv.compactTokens(ctx, c.EventRetention) {
		return
	}
	inv.storeSummary(ctx, c.slidingWindow(liveEvents(h)))
}

// compactedIn reports whether an invocation has written a summary.
func compactedIn(events []*session.Event, invocation string) bool {
	for _, ev := range slices.Backward(events) {
		switch {
		case isCompaction(ev):
			return true
		case ev.IsFromUser() && ev.InvocationID == invocation:
			return false
		}
	}
	return false
}

// compactBefore compacts the history before a model call if the token
// threshold is reached. The last event, which the model answers, is always
// kept. It does nothing on a parallel branch, where other agents write at the
// same time.
func (inv *Invocation) compactBefore(ctx context.Context) {
	if c := inv.run.app.compactor; c != nil && inv.branch == "" {
		inv.compactTokens(ctx, max(c.EventRetention, 1))
	}
}

// compactTokens summarizes all but the latest events if the prompt has reached
// the token threshold. It reports whether it did.
func (inv *Invocation) compactTokens(ctx context.Context, retain int) bool {
	c := inv.run.app.compactor
	if c.TokenThreshold == 0 {
		return false
	}
	events := liveEvents(inv.run.sess.History)
	if inv.estimatePromptTokens(events) < c.TokenThreshold {
		return false
	}
	return inv.storeSummary(ctx, thresholdRange(events, retain))
}

// estimatePromptTokens returns the size of the agent's latest prompt in tokens, as
// reported by the model since the last summary, or else an estimate of its next prompt.
// Prompts of other agents do not count, because they have other instructions, tools and
// contents (adk-python since 2.10); an agent without a model takes the latest of all.
func (inv *Invocation) estimatePromptTokens(events []*session.Event) int {
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
			chars += utf8.RuneCountInString(p.Text) + countCallChars(p)
		}
	}
	return chars / 4
}

// countCallChars returns the length of a call or a response (adk-python since 2.8).
func countCallChars(p *genai.Part) int {
	switch {
	case p.FunctionCall != nil:
		return utf8.RuneCountInString(p.FunctionCall.Name) + utf8.RuneCountInString(jsonText(p.FunctionCall.Args))
	case p.FunctionResponse != nil:
		return utf8.RuneCountInString(p.FunctionResponse.Name) + utf8.RuneCountInString(jsonText(p.FunctionResponse.Response))
	}
	return 0
}

// storeSummary stores the summary of a range, and reports whether it did. The
// event is stored but not yielded.
func (inv *Invocation) storeSummary(ctx context.Context, s compactionRange) bool {
	if len(s.events) == 0 {
		return false
	}
	r := inv.run
	ev, err := inv.buildSummary(ctx, s)
	if err == nil && ev != nil {
		r.stampMetadata(ev)
		err = r.commit(ctx, ev)
	}
	if err != nil {
		r.logger().WarnContext(ctx, "compaction failed", "error", err)
		return false
	}
	return ev != nil
}

// buildSummary calls the model and returns the summary event; nil when the
// range has no text.
func (inv *Invocation) buildSummary(ctx context.Context, s compactionRange) (*session.Event, error) {
	r := inv.run
	text := s.conversationText()
	if text == "" {
		return nil, nil
	}
	prompt := strings.ReplaceAll(r.app.compactor.Prompt, ConversationHistory, text)
	resp, err := r.app.compactor.askSummarizer(ctx, r, prompt, inv.summaryOrigin(prompt))
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

// summaryOrigin returns the origin of the model call, which has no agent.
func (inv *Invocation) summaryOrigin(prompt string) model.Origin {
	o := inv.requestOrigin()
	o.Agent, o.UserText = "", prompt
	return o
}

// streamSummary calls the model, and reports whether the consumer took the
// whole stream.
func (c *compactor) streamSummary(ctx context.Context, req *model.Request, yield responseFunc) (whole bool) {
	for resp, err := range c.llm.Generate(ctx, req) {
		if !yield(resp, err) {
			return false
		}
	}
	return true
}

// askSummarizer returns the model's response, which has text.
func (c *compactor) askSummarizer(ctx context.Context, r *run, prompt string, origin model.Origin) (*model.Response, error) {
	req := &model.Request{
		Model: c.llm.Name(), Contents: []*genai.Content{model.UserText(prompt)},
		Config: &genai.GenerateContentConfig{}, Origin: origin,
	}
	var last *model.Response
	var failure error
	r.traceModelCall(ctx, req, "", c.streamSummary, func(resp *model.Response, err error) bool {
		if failure = err; err == nil && !resp.Partial {
			last = resp
		}
		return err == nil
	})
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

// A compactionRange is what one summary replaces: events, and an earlier
// summary if there is one.
type compactionRange struct {
	earlier *session.Compaction
	events  []*session.Event
}

// conversationText returns the conversation for the summarizing model, one
// line per text. (adk-python joins them with a backslash and an n.)
func (s compactionRange) conversationText() string {
	var lines []string
	if s.earlier != nil {
		lines = append(lines, summaryAuthor+": "+model.TextOf(s.earlier.CompactedContent))
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
	start, end = eventSeconds(s.events[0]), eventSeconds(s.events[0])
	for _, ev := range s.events {
		start, end = min(start, eventSeconds(ev)), max(end, eventSeconds(ev))
	}
	if s.earlier != nil {
		start = s.earlier.StartTimestamp
	}
	return start, end
}

// lastCompaction returns the compaction with the latest end, or nil.
func lastCompaction(events []*session.Event) *session.Compaction {
	var last *session.Compaction
	for _, ev := range events {
		if isCompaction(ev) && (last == nil || ev.Actions.Compaction.EndTimestamp >= last.EndTimestamp) {
			last = ev.Actions.Compaction
		}
	}
	return last
}

func compactionEnd(c *session.Compaction) float64 {
	if c == nil {
		return 0
	}
	return c.EndTimestamp
}

// slidingWindow returns the range of all invocations since the last summary if
// there are enough of them, and of earlier ones for the overlap.
func (c *compactor) slidingWindow(events []*session.Event) compactionRange {
	if c.Interval == 0 {
		return compactionRange{}
	}
	last := compactionEnd(lastCompaction(events))
	fresh := map[string]bool{}
	for _, ev := range events {
		if ev.Actions.Compaction == nil && eventSeconds(ev) > last {
			fresh[ev.InvocationID] = true
		}
	}
	if len(fresh) < c.Interval {
		return compactionRange{}
	}
	s := compactionRange{events: c.withOverlap(withoutCompactions(events), fresh)}
	s.events = s.events[:compactableCount(s.events, len(s.events))]
	if !slices.ContainsFunc(s.events, func(ev *session.Event) bool { return eventSeconds(ev) > last }) {
		return compactionRange{} // nothing new before what is pending
	}
	return s
}

// withOverlap returns the events from the first fresh invocation on, and those
// of the overlapping invocations before it.
func (c *compactor) withOverlap(events []*session.Event, fresh map[string]bool) []*session.Event {
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
	return events[starts[max(0, len(starts)-1-c.Overlap)]:]
}

// thresholdRange returns the range for the token threshold: the last summary
// and all later events except the latest ones.
func thresholdRange(events []*session.Event, retain int) compactionRange {
	s := compactionRange{earlier: lastCompaction(events)}
	for _, ev := range withoutCompactions(events) {
		if eventSeconds(ev) > compactionEnd(s.earlier) {
			s.events = append(s.events, ev)
		}
	}
	s.events = s.events[:compactableCount(s.events, max(0, len(s.events)-retain))]
	return s
}

func withoutCompactions(events []*session.Event) []*session.Event {
	return slices.DeleteFunc(slices.Clone(events), func(ev *session.Event) bool { return ev.Actions.Compaction != nil })
}

// compactableCount returns the greatest number of events, at most n, that can
// be summarized: none of their calls is pending or answered only by later
// events, and all of them are older than the later ones.
func compactableCount(events []*session.Event, n int) int {
	n = min(n, firstPending(events))
	for {
		before := n
		n = beforeAnswered(events, n)
		n = beforeYounger(events, n)
		if n == before {
			return n
		}
	}
}

// firstPending returns the index of the first event with a pending call or
// request, or the number of events.
func firstPending(events []*session.Event) int {
	answered := map[string]int{}
	for i, ev := range events {
		for _, r := range ev.Responses() {
			answered[r.ID] = i
		}
	}
	waits := func(id string, i int) bool {
		at, ok := answered[id]
		return !ok || at <= i
	}
	for i, ev := range events {
		if ev.Provenance.Imported {
			continue // no one answers its calls
		}
		for _, c := range ev.Calls() {
			if waits(c.ID, i) {
				return i
			}
		}
		for id := range ev.Actions.RequestedToolConfirmations {
			if waits(id, i) {
				return i
			}
		}
		for id := range ev.Actions.RequestedAuthConfigs {
			if waits(id, i) {
				return i
			}
		}
	}
	return len(events)
}

// beforeAnswered moves n before every call that is answered after it.
func beforeAnswered(events []*session.Event, n int) int {
	calledAt := map[string]int{}
	for i, ev := range events {
		for _, c := range ev.Calls() {
			calledAt[c.ID] = i
		}
	}
	for i := len(events) - 1; i >= n; i-- {
		for _, r := range events[i].Responses() {
			if at, ok := calledAt[r.ID]; ok {
				n = min(n, at)
			}
		}
	}
	return n
}

// beforeYounger moves n before events that are not older than a later one,
// because a compaction identifies its events by time.
func beforeYounger(events []*session.Event, n int) int {
	var oldest time.Time
	for i := len(events) - 1; i >= 0; i-- {
		at := events[i].Timestamp
		if i < n && !oldest.IsZero() && !at.Before(oldest) {
			n = i
		}
		if i >= n && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return n
}
