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

// runAndCompact carries out the run, and summarises behind it when it came to
// its end: no failure, and nobody left.
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

// compactAfter summarises what the token threshold asks for, or else the
// invocations since the last summary, when there are enough of them
// (adk-python apps/compaction.py). A failure is logged and changes nothing.
func (inv *Invocation) compactAfter(ctx context.Context) {
	c, h := inv.run.app.compactor, inv.run.sess.History
	if !compactedIn(liveEvents(h), inv.run.id) && inv.compactTokens(ctx, c.EventRetention) {
		return
	}
	inv.storeSummary(ctx, c.slidingWindow(liveEvents(h)))
}

// compactedIn says whether a summary was written in an invocation.
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

// compactBefore summarises before a model call, when the token threshold is
// reached. The last event always stays: it is what the model answers. On a
// parallel branch nothing is done: there other agents write at the same time.
func (inv *Invocation) compactBefore(ctx context.Context) {
	if c := inv.run.app.compactor; c != nil && inv.branch == "" {
		inv.compactTokens(ctx, max(c.EventRetention, 1))
	}
}

// compactTokens summarises all but the latest events when the prompt is as long
// as the threshold. It says whether it did.
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

// estimatePromptTokens is how many tokens the newest prompt had, if a model has told
// since the last summary; else an estimate of what the next one has.
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
		return 0 // the request itself will tell
	}
	letters := 0
	for _, c := range contents {
		for _, p := range c.Parts {
			letters += utf8.RuneCountInString(p.Text)
		}
	}
	return letters / 4
}

// storeSummary stores the summary of a stretch, and says whether it did. The event
// is stored only: nobody is shown it.
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
		r.logger().WarnContext(ctx, "the conversation could not be summarised", "error", err)
		return false
	}
	return ev != nil
}

// buildSummary asks the model and makes the event; nil when nothing was said that
// could be summarised.
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

// summaryOrigin says who asks: no agent.
func (inv *Invocation) summaryOrigin(prompt string) model.Origin {
	o := inv.requestOrigin()
	o.Agent, o.User = "", prompt
	return o
}

// streamSummary asks the model, and says whether all was heard.
func (c *compactor) streamSummary(ctx context.Context, req *model.Request, hear responseFunc) (whole bool) {
	for resp, err := range c.llm.Generate(ctx, req) {
		if !hear(resp, err) {
			return false
		}
	}
	return true
}

// askSummarizer returns the model's answer, which has text.
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
		return nil, errors.New("the model answered no text")
	}
	return last, nil
}
