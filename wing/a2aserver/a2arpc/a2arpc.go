// Package a2arpc serves A2A 1.0 over gRPC on an HTTP server. A call is a request like all others:
//
//	POST /lf.a2a.v1.A2AService/METHOD ──▶ authenticate ──▶ read the one message ──▶ count its values, decode it
//	  ──▶ open the agent that the tenant names ──▶ the SDK's function for the method ──▶ the handler
//	  ──▶ a frame for each response ──▶ the status in trailers
//
// Only the framing is here, and no gRPC server: a call has no goroutine of its own, nothing is read for a caller
// who is not authenticated, and the server's routes, limits, logs and shutdowns apply.
package a2arpc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/server"
)

const (
	// Path begins the methods' paths.
	Path = "/lf.a2a.v1.A2AService/"
	// Content is the media type.
	Content = "application/grpc"
	// grpcHeader is how many bytes precede a message: whether it is compressed, and its length.
	grpcHeader = 5
	// maxStatus limits a status message in characters.
	maxStatus = 1024
)

// A Service serves the calls. It is safe for concurrent use.
type Service struct {
	*server.Services
	open    Opener
	methods a2apb.A2AServiceServer
}

// An Opener returns the context for the [a2asrv.RequestHandler], for the caller and the agent that a tenant names.
// It may set the response's header.
type Opener func(w http.ResponseWriter, r *http.Request, tenant string) (context.Context, error)

// New returns the service for a handler.
func New(s *server.Services, handler a2asrv.RequestHandler, open Opener) *Service {
	return &Service{s, open, a2agrpc.NewHandler(&handlers{handler})}
}

// A grpcCall is a call to one method.
type grpcCall struct {
	s *Service
	w *protocol.FrameWriter
	r *http.Request
	// ctx is the opened agent's once the message is decoded.
	ctx     context.Context
	message []byte
}

// Handle handles a call. After the protocol's checks all errors are gRPC statuses.
func (s *Service) Handle(w http.ResponseWriter, r *http.Request) error {
	if r.ProtoMajor != 2 {
		return server.NewError(http.StatusHTTPVersionNotSupported, "gRPC requires HTTP/2")
	}
	if kind := r.Header.Get("Content-Type"); kind != Content && !strings.HasPrefix(kind, Content+"+proto") {
		return server.NewError(http.StatusUnsupportedMediaType, "Content-Type must be application/grpc")
	}
	c := &grpcCall{s: s, w: protocol.NewFrameWriter(w), r: r}
	w.Header().Set("Content-Type", Content)
	var err error
	if caught := safe.Call(func() { err = c.callService() }); caught != nil {
		caught.Log(s.Logger(), "handling an A2A request panicked")
		err = status.Error(codes.Internal, a2a.ErrInternalError.Error())
	}
	c.writeStatus(c.describeStatus(err))
	return nil
}

// callService authenticates the caller, reads the message, and calls the method.
func (c *grpcCall) callService() error {
	caller, err := c.s.Authenticate(c.r)
	if err != nil {
		return err
	}
	if caller != nil {
		c.r = server.WithPrincipal(c.r, caller)
	}
	ctx, cancel, err := limitTime(c.r.Context(), c.r.Header.Get("Grpc-Timeout"))
	if err != nil {
		return err
	}
	defer cancel()
	c.r = c.r.WithContext(ctx)
	if c.message, err = c.readMessage(); err != nil {
		return err
	}
	name, service := c.r.PathValue("method"), &a2apb.A2AService_ServiceDesc
	for _, method := range service.Methods {
		if method.MethodName == name {
			return c.callMethod(method)
		}
	}
	for _, stream := range service.Streams {
		if stream.StreamName == name {
			return errors.Join(stream.Handler(c.s.methods, &grpcStream{c}), ctx.Err())
		}
	}
	return status.Error(codes.Unimplemented, "unknown method")
}

func (c *grpcCall) callMethod(method grpc.MethodDesc) error {
	ctx := grpc.NewContextWithServerTransportStream(c.r.Context(), grpcTrailers{})
	answer, err := method.Handler(c.s.methods, ctx, c.decodeMessage, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(grpc.NewContextWithServerTransportStream(c.ctx, grpcTrailers{}), req)
	})
	if err != nil {
		return err
	}
	return c.sendMessage(answer)
}

// limitTime ends ctx after a Grpc-Timeout, such as 10S; empty for no limit.
func limitTime(ctx context.Context, timeout string) (context.Context, context.CancelFunc, error) {
	if timeout == "" {
		return ctx, func() {}, nil
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}
	unit := units[timeout[len(timeout)-1]]
	n, err := strconv.ParseUint(timeout[:len(timeout)-1], 10, 32)
	if err != nil || unit == 0 || len(timeout) > 9 {
		return nil, nil, status.Error(codes.InvalidArgument, "grpc-timeout must be at most 8 digits and one of H, M, S, m, u and n")
	}
	if n > uint64(maxTimeout/unit) {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*unit)
	return ctx, cancel, nil
}

// maxTimeout is the longest timeout that has an effect.
const maxTimeout = 365 * 24 * time.Hour

// readMessage reads the request's only message, within a request body's limit.
func (c *grpcCall) readMessage() ([]byte, error) {
	body, err := c.s.ReadBytes(c.w, c.r)
	if err != nil {
		return nil, err
	}
	switch {
	case len(body) < grpcHeader:
		return nil, status.Error(codes.InvalidArgument, "the request has no message")
	case body[0] != 0:
		return nil, status.Error(codes.Unimplemented, "messages must not be compressed")
	case uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-grpcHeader):
		return nil, status.Error(codes.InvalidArgument, "the request must have one message")
	}
	return body[grpcHeader:], nil
}

// A tenantMessage is a request in the SDK.
type tenantMessage interface {
	proto.Message
	GetTenant() string
}

var _ tenantMessage = (*a2apb.SendMessageRequest)(nil)

// decodeMessage decodes the message into the SDK's request, and opens the agent that it names.
func (c *grpcCall) decodeMessage(req any) error {
	m, ok := req.(tenantMessage)
	if !ok {
		return status.Error(codes.Unimplemented, "unknown method")
	}
	if err := checkMessage(m.ProtoReflect().Descriptor(), c.message); err != nil {
		return err
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(c.message, m); err != nil {
		return errMalformed
	}
	if send, ok := req.(*a2apb.SendMessageRequest); ok {
		if err := checkData(send.GetMessage()); err != nil {
			return err
		}
	}
	if m.GetTenant() == "" {
		return status.Error(codes.InvalidArgument, "tenant is required: it names the app, as on the agent card")
	}
	ctx, err := c.s.open(c.w, c.r, m.GetTenant())
	if err != nil {
		return err
	}
	// Only the extensions, as the SDK keeps the metadata with the request.
	extensions := metadata.MD{strings.ToLower(a2a.SvcParamExtensions): c.r.Header.Values(a2a.SvcParamExtensions)}
	c.ctx = metadata.NewIncomingContext(ctx, extensions)
	return nil
}

// sendMessage sends a response in a frame.
func (c *grpcCall) sendMessage(answer any) error {
	m, ok := answer.(proto.Message)
	if !ok {
		return fmt.Errorf("response is %T, and no message", answer)
	}
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, grpcHeader, grpcHeader+proto.Size(m)), m)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-grpcHeader)) //nolint:gosec // protobuf has at most 2 GiB
	if _, err := c.w.Write(frame); err != nil {
		return status.FromContextError(context.Canceled).Err() // the client has left
	}
	return c.w.FlushError()
}

// describeStatus returns an error's status; an internal one's cause is in the log.
func (c *grpcCall) describeStatus(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	if ended := c.r.Context().Err(); ended != nil {
		return status.FromContextError(ended)
	}
	failed := c.s.LogError(c.r, err)
	code, ok := statusCodes[failed.Status]
	if !ok {
		return status.New(codes.Internal, a2a.ErrInternalError.Error())
	}
	detail := failed.Detail
	if detail == "" {
		detail = err.Error()
	}
	return status.New(code, detail)
}

// A BusyError is an error for which a later attempt may succeed. The protocol has no code for it; gRPC has.
type BusyError struct {
	own    *a2a.Error
	status int
}

// NewBusyError returns an error with an HTTP status.
func NewBusyError(status int, detail string) *BusyError {
	return &BusyError{a2a.NewError(a2a.ErrServerError, detail), status}
}

// Error returns the message for the client.
func (e *BusyError) Error() string { return e.own.Error() }

// Unwrap returns the protocol's error.
func (e *BusyError) Unwrap() error { return e.own }

// GRPCStatus is called by [status.FromError].
func (e *BusyError) GRPCStatus() *status.Status {
	return status.New(statusCodes[e.status], e.own.Error())
}

// statusCodes are gRPC's for the server's.
var statusCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusConflict:              codes.Aborted,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnprocessableEntity:   codes.InvalidArgument,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// writeStatus ends the response.
func (c *grpcCall) writeStatus(s *status.Status) {
	c.w.WriteHeader(http.StatusOK)
	_ = c.w.FlushError() // what follows is in trailers
	trailer := func(name, value string) { c.w.Header().Set(http.TrailerPrefix+name, value) }
	trailer("Grpc-Status", strconv.Itoa(int(s.Code())))
	if s.Code() == codes.OK {
		return
	}
	full := s.Proto()
	full.Message = protocol.TruncateText(full.GetMessage(), maxStatus)
	trailer("Grpc-Message", encodeStatus(full.GetMessage()))
	if len(full.GetDetails()) > 0 {
		if text, err := proto.Marshal(full); err == nil {
			trailer("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(text))
		}
	}
}

// encodeStatus encodes a status message for its trailer: all but printable ASCII is percent-encoded.
func encodeStatus(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// grpcTrailers ignores the extensions that the SDK's functions set: the opener has set them.
type grpcTrailers struct{}

// Method implements [grpc.ServerTransportStream].
func (grpcTrailers) Method() string { return "" }

// SetHeader implements [grpc.ServerTransportStream].
func (grpcTrailers) SetHeader(metadata.MD) error { return nil }

// SendHeader implements [grpc.ServerTransportStream].
func (grpcTrailers) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements [grpc.ServerTransportStream].
func (grpcTrailers) SetTrailer(metadata.MD) error { return nil }

// A grpcStream is a call whose response is a stream.
type grpcStream struct{ *grpcCall }

var _ grpc.ServerStream = (*grpcStream)(nil)

// Context implements [grpc.ServerStream].
func (s *grpcStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *grpcStream) RecvMsg(m any) error { return s.decodeMessage(m) }

// SendMsg implements [grpc.ServerStream].
func (s *grpcStream) SendMsg(m any) error { return s.sendMessage(m) }

// SetHeader implements [grpc.ServerStream].
func (s *grpcStream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements [grpc.ServerStream].
func (s *grpcStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements [grpc.ServerStream].
func (s *grpcStream) SetTrailer(metadata.MD) {}
