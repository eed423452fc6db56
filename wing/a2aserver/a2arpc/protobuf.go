package a2arpc

import (
	"context"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"agenthost/internal/limit"
	"agenthost/pkg/server"
)

var errMalformed = status.Error(codes.InvalidArgument, "the message is not valid protobuf for the method")

// checkMessage checks how many fields an encoded message has, and its depth, before it is decoded: two bytes
// of it can need more than a hundred in memory. The limits are those of a request body in JSON.
func checkMessage(of protoreflect.MessageDescriptor, text []byte) error {
	values := 0
	return countFields(of, text, &values, 1)
}

func countFields(of protoreflect.MessageDescriptor, text []byte, values *int, depth int) error {
	for len(text) > 0 {
		*values++
		if err := limit.RequestBody.CheckMeasure(*values, depth); err != nil {
			return err
		}
		number, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return errMalformed
		}
		text = text[size:]
		if size = protowire.ConsumeFieldValue(number, kind, text); size < 0 {
			return errMalformed
		}
		if field := of.Fields().ByNumber(number); field != nil && field.Message() != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(text)
			if err := countFields(field.Message(), inner, values, depth+1); err != nil {
				return err
			}
		}
		text = text[size:]
	}
	return nil
}

// checkData rejects data that the SDK would read as an empty object.
func checkData(m *a2apb.Message) error {
	for i, p := range m.GetParts() {
		if data, ok := p.GetContent().(*a2apb.Part_Data); ok {
			if _, ok := data.Data.GetKind().(*structpb.Value_StructValue); !ok {
				return status.Errorf(codes.InvalidArgument, "message.parts[%d].data must be an object over gRPC", i)
			}
		}
	}
	return nil
}

// handlers send data that is not an object, for which the SDK has no form in protobuf, as JSON in text.
type handlers struct{ a2asrv.RequestHandler }

// SendMessage implements [a2asrv.RequestHandler].
func (h *handlers) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	result, err := h.RequestHandler.SendMessage(ctx, req)
	replaceData(result)
	return result, err
}

// GetTask implements [a2asrv.RequestHandler].
func (h *handlers) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	t, err := h.RequestHandler.GetTask(ctx, req)
	replaceData(t)
	return t, err
}

// CancelTask implements [a2asrv.RequestHandler].
func (h *handlers) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	t, err := h.RequestHandler.CancelTask(ctx, req)
	replaceData(t)
	return t, err
}

// ListTasks implements [a2asrv.RequestHandler].
func (h *handlers) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	list, err := h.RequestHandler.ListTasks(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, t := range list.Tasks {
		replaceData(t)
	}
	return list, nil
}

// SendStreamingMessage implements [a2asrv.RequestHandler].
func (h *handlers) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return replaceStreamData(h.RequestHandler.SendStreamingMessage(ctx, req))
}

// SubscribeToTask implements [a2asrv.RequestHandler].
func (h *handlers) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return replaceStreamData(h.RequestHandler.SubscribeToTask(ctx, req))
}

func replaceStreamData(events iter.Seq2[a2a.Event, error]) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		for ev, err := range events {
			replaceData(ev)
			if !yield(ev, err) {
				return
			}
		}
	}
}

// replaceData replaces the data in an event, which belongs to the call; nil has none.
func replaceData(ev any) {
	switch ev := ev.(type) {
	case *a2a.Message:
		replaceMessageData(ev)
	case *a2a.TaskStatusUpdateEvent:
		replaceMessageData(ev.Status.Message)
	case *a2a.TaskArtifactUpdateEvent:
		replacePartsData(ev.Artifact.Parts)
	case *a2a.Task:
		if ev == nil {
			return
		}
		replaceMessageData(ev.Status.Message)
		for _, m := range ev.History {
			replaceMessageData(m)
		}
		for _, a := range ev.Artifacts {
			replacePartsData(a.Parts)
		}
	}
}

func replaceMessageData(m *a2a.Message) {
	if m != nil {
		replacePartsData(m.Parts)
	}
}

func replacePartsData(parts a2a.ContentParts) {
	for i, p := range parts {
		data, ok := p.Content.(a2a.Data)
		if _, isObject := data.Value.(map[string]any); !ok || isObject {
			continue
		}
		text, err := server.EncodeJSON(data.Value)
		if err != nil {
			continue // the SDK reports it
		}
		replaced := *p
		replaced.Content, replaced.MediaType = a2a.Text(text), "application/json"
		parts[i] = &replaced
	}
}

// EncodeCard returns the card that a client receives over gRPC, in JSON: it has more fields with default values.
func EncodeCard(card *a2a.AgentCard) ([]byte, error) {
	message, err := pbconv.ToProtoAgentCard(card)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(message)
}
