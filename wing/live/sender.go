package live

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// Request errors. The run continues after them.
var (
	errFunctionCall   = errors.New("the content must not contain a function call")
	errMixedResponses = errors.New("the content must contain either function responses or other parts, not both")
	errResponseID     = errors.New("a function response must have the id of its call")
	errManyInputs     = errors.New("expected only one of blob, activity_start, activity_end and audio_stream_end: send each in a separate request")
)

// An Outgoing is what a client request means: frames for the model, and what the session stores
// before they are sent.
type Outgoing struct {
	Frames []*model.LiveFrame
	// Content is stored as a user event; nil if there is none.
	Content *genai.Content
	// StateDelta is stored with the content, or in a separate event.
	StateDelta map[string]any
	// Responses answer calls. They are also in Frames.
	Responses []*genai.FunctionResponse
	// PartialBytes is a partial content's size. The model holds that content until another one
	// completes the turn; nothing stores it.
	PartialBytes int
	// Dropped is the type of a blob that the model rejects; empty if there is none.
	Dropped string
	// Close ends the run after the rest.
	Close bool
}

// Translate returns what a request means for a model (adk-python
// models/gemini_llm_connection.py send). An error is the client's, and nothing is sent.
func Translate(r *Request, traits model.LiveTraits) (*Outgoing, error) {
	if err := r.checkInputs(); err != nil {
		return nil, err
	}
	out := &Outgoing{StateDelta: r.StateDelta, Close: r.Close}
	switch {
	case r.ActivityStart:
		out.addFrame(&model.LiveFrame{ActivityStart: true})
	case r.ActivityEnd:
		out.addFrame(&model.LiveFrame{ActivityEnd: true})
	case r.AudioStreamEnd:
		out.addFrame(&model.LiveFrame{AudioStreamEnd: true})
	case r.Blob != nil && acceptsMedia(traits, r.Blob.MIMEType):
		out.addFrame(&model.LiveFrame{Blob: r.Blob})
	case r.Blob != nil:
		out.Dropped = r.Blob.MIMEType
	}
	if r.Content == nil {
		return out, nil
	}
	return out, out.addContent(r, traits)
}

func (out *Outgoing) addFrame(f *model.LiveFrame) { out.Frames = append(out.Frames, f) }

func (out *Outgoing) addContent(r *Request, traits model.LiveTraits) error {
	switch r.Content.Role {
	case "", genai.RoleUser, "function", "tool": // the roles that current and old clients send
	default:
		return fmt.Errorf("the content's role must be user, got %.50q", r.Content.Role)
	}
	if len(model.CallsOf(r.Content)) > 0 {
		return errFunctionCall
	}
	if answers := model.ResponsesOf(r.Content); len(answers) > 0 {
		if len(answers) != len(r.Content.Parts) {
			return errMixedResponses
		}
		for _, a := range answers {
			if a.ID == "" {
				return errResponseID
			}
		}
		out.Responses = answers
		out.addFrame(&model.LiveFrame{Responses: answers})
		return nil
	}
	content := *r.Content
	content.Role = genai.RoleUser
	if !r.Partial {
		out.Content = &content
	}
	if parts := content.Parts; len(parts) == 1 && parts[0].Text != "" && traits.RealtimeText && !r.Partial {
		out.addFrame(&model.LiveFrame{Text: parts[0].Text})
		return nil
	}
	frame := &model.LiveFrame{Turns: []*genai.Content{&content}, TurnComplete: !r.Partial}
	if r.Partial {
		out.PartialBytes = frameSize(frame)
	}
	out.addFrame(frame)
	return nil
}

// acceptsMedia reports whether a model accepts blobs with a media type.
func acceptsMedia(traits model.LiveTraits, mimeType string) bool {
	switch {
	case traits.TextOnly:
		return false
	case traits.TypedMedia:
		return strings.HasPrefix(mimeType, "audio/") || strings.HasPrefix(mimeType, "image/")
	}
	return true
}
