package main

import (
	"context"
	"time"
)

// Both sides' texts. The app has its agent's name, as in adk-go's loader.
const (
	app         = "weather"
	instruction = "Answer the user in three words."
	question    = "What does the weather look like in Paris today?"
	wholeText   = "sunny all day"
	chunkText   = "sunny"
)

// A script is the model's answer on both sides: chunks at an interval, then the complete text.
type script struct {
	Chunks int           `json:"chunks"`
	Every  time.Duration `json:"every"`
}

// streamText yields the answer until yield returns false or the context ends.
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
