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
	whole       = "sunny all day"
	piece       = "sunny"
)

// A script is what the model of both sides answers: so many pieces, one each
// time, and then the whole.
type script struct {
	Pieces int           `json:"pieces"`
	Every  time.Duration `json:"every"`
}

// play says the answer until nobody wants more of it, or the context ends.
func (s script) play(ctx context.Context, say func(text string, partial bool) bool) error {
	for range s.Pieces {
		if err := pause(ctx, s.Every); err != nil {
			return err
		}
		if !say(piece, true) {
			return nil
		}
	}
	if err := pause(ctx, s.Every); err != nil {
		return err
	}
	say(whole, false)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
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
