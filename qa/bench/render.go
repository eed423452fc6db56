package main

import (
	"context"
	"fmt"
	"strings"
)

// The rendered instruction's size.
const (
	textLength   = 2048
	placeholders = 10
	stateKeys    = 100
)

// renderRound measures filling an instruction's placeholders.
func renderRound(ctx context.Context, _ *lab, s Side) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text, state := buildInstruction()
	render, err := s.Template(ctx, text, state)
	if err != nil {
		return Cost{}, fmt.Errorf("preparing the template: %w", err)
	}
	want := fillPlaceholders(text, state)
	got, err := render(ctx)
	if err != nil {
		return Cost{}, fmt.Errorf("rendering: %w", err)
	}
	if got != want {
		return Cost{}, fmt.Errorf("rendering: got %q, want %q", got, want)
	}
	// One rendering is too short for the clock's resolution.
	const batch = 100
	cost, _, err := measureOps(10_000, shortLimit, func(int) error {
		for range batch {
			got, err := render(ctx)
			if err != nil {
				return fmt.Errorf("rendering again: %w", err)
			}
			if len(got) != len(want) {
				return fmt.Errorf("rendering again: %d bytes, want %d", len(got), len(want))
			}
		}
		return nil
	})
	return cost.dividedBy(batch), err
}

// buildInstruction returns a session's text and state. The text uses every tenth key.
func buildInstruction() (string, map[string]any) {
	state := map[string]any{}
	var b strings.Builder
	for i := range stateKeys {
		key := fmt.Sprintf("key_%02d", i)
		state[key] = fmt.Sprintf("value %d", i)
		if i%(stateKeys/placeholders) != 0 {
			continue
		}
		paragraph := fmt.Sprintf("\nKeep in mind that {%s} holds for this user. ", key)
		room := textLength*(i+stateKeys/placeholders)/stateKeys - b.Len() - len(paragraph)
		b.WriteString(paragraph)
		b.WriteString(strings.Repeat("Be brief, be kind, be exact. ", room)[:room])
	}
	return b.String(), state
}

// fillPlaceholders replaces placeholders with strings.ReplaceAll.
func fillPlaceholders(text string, state map[string]any) string {
	for key, value := range state {
		text = strings.ReplaceAll(text, "{"+key+"}", value.(string))
	}
	return text
}
