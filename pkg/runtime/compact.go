package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// runAndCompact runs the invocation, and compacts the history afterwards if
// the run completed without error and the consumer did not stop it.
func (inv *Invocation) runAndCompact(ctx context.Context, yield func(*session.Event, error) bool) {
	ended := true
	inv.run.runWithPlugins(ctx, inv, func(ev *session.Event, err error) bool {
		ended = yield(ev, err) && err == nil
		return ended
	})
	if ended && ctx.Err() == nil {
		inv.compactAfter(ctx)
	}
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
		case ev.Author == session.UserAuthor && ev.InvocationID == invocation:
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

// estimatePromptTokens returns the size of the latest prompt in tokens, as
// reported by the model since the last summary, or else an estimate of the
// next prompt.
func (inv *Invocation) estimatePromptTokens(events []*session.Event) int {
	for i := len(events) - 1; i >= 0 && !isCompaction(events[i]); i-- {
		if u := events[i].UsageMetadata; u != nil && !events[i].Provenance.Imported && u.PromptTokenCount > 0 {
			return int(u.PromptTokenCount)
		}
	}
	include := IncludeDefault
	if a, ok := inv.node.agent.(*LLMAgent); ok {
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
		}
	}
	return chars / 4
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
	prompt := strings.ReplaceAll(r.app.compactor.Summarizer.Prompt.Value, historyMark, text)
	resp, err := r.app.compactor.askSummarizer(ctx, r.host, prompt, inv.summaryOrigin(prompt))
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
	o.Agent, o.User = "", prompt
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
func (c *compactor) askSummarizer(ctx context.Context, h *Host, prompt string, origin model.Origin) (*model.Response, error) {
	req := &model.Request{
		Model: c.llm.Name(), Contents: []*genai.Content{model.UserText(prompt)},
		Config: &genai.GenerateContentConfig{}, Origin: origin,
	}
	var last *model.Response
	var failure error
	h.traceModelCall(ctx, req, nil, c.streamSummary, func(resp *model.Response, err error) bool {
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
