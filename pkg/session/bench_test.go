package session

import (
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func textEvent() *Event {
	return &Event{
		ID:           "c0a80101-0000-4000-8000-000000000004",
		InvocationID: "e-2b8e0d57-4b6f-4b6c-8a40-1d2f3a4b5c6d",
		Author:       "trip_root",
		Timestamp:    time.UnixMicro(1785312002800000).UTC(),
		Response: model.Response{
			Content:      model.ModelText("The next one leaves at 14:05."),
			FinishReason: genai.FinishReasonStop,
		},
	}
}

func callEvent() *Event {
	e := textEvent()
	e.Content = &genai.Content{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{
		ID: "adk-7a1f", Name: "next_departures", Args: map[string]any{"pier": "Cais 2", "limit": int64(1)},
	}}}}
	e.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 212, CandidatesTokenCount: 14, TotalTokenCount: 226}
	e.Actions.SetState("answer", "14:05")
	return e
}

func BenchmarkAppendEvent(b *testing.B) {
	for name, e := range map[string]*Event{"text": textEvent(), "call": callEvent()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = AppendEvent(buf[:0], e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	for name, e := range map[string]*Event{"text": textEvent(), "call": callEvent()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			row, err := AppendEvent(nil, e)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := new(Event).UnmarshalJSON(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOutcome measures what a turn costs for its counts: they are read once and stored twice.
func BenchmarkOutcome(b *testing.B) {
	o := Outcome{
		Revision: "4b1d6f0011223344", Protocol: "run", Day: 20785, Turns: 57, Millis: 12345, SquaredMillis: 9_912_345,
		Agents: []AgentOutcome{{Agent: "desk", Calls: 57, Input: 5700, Output: 570}},
	}
	text := o.Append(nil)
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, 320)
		b.ReportAllocs()
		for b.Loop() {
			o.Append(buf)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := o.Decode(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("previous", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PreviousOutcome(text)
		}
	})
}
