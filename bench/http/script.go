package main

import (
	"context"
	"time"
)

// What both sides say. The app has the name of its agent, as adk-go's loader has it.
const (
	app         = "weather"
	instruction = "Answer the user in three words."
	question    = "What does the weather look like in Paris today?"
	wholeText   = "sunny all day"
	chunkText   = "sunny"
)

// A script is what the model of both sides answers: so many pieces, one each
// time, and then the whole.
type script struct {
	Chunks int           `json:"pieces"`
	Every  time.Duration `json:"every"`
}

// streamText says the answer until nobody wants more of it, or the context ends.
func (s script) streamText(ctx context.Context, yield func(text string, partial bool) bool) error {
	for range s.Chunks {
		if err := waitFor(ctx, s.Every); err != nil {
			return err
		}
		if !yield(chunkText, true) {
			return nil
		}
	}
	if err := waitFor(ctx, s.Every); err != nil {
		return err
	}
	yield(wholeText, false)
	return nil
}

func waitFor(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
