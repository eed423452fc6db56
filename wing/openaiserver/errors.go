package openaiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"agenthost/pkg/server"
)

// A requestError is an error that the client has caused.
type requestError struct {
	status      int
	text        string
	param, code string
}

// Error returns the message for the client.
func (e *requestError) Error() string { return e.text }

// newRefusal returns an error about a parameter.
func newRefusal(param, format string, args ...any) error {
	return &requestError{http.StatusBadRequest, fmt.Sprintf(format, args...), param, ""}
}

// An errorObject is an error on the wire.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type errorBody struct {
	Error errorObject `json:"error"`
}

// inForm writes a handler's error in OpenAI's form.
func (h *handlers) inForm(handle server.Handler) server.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := handle(w, r)
		if err == nil || r.Context().Err() != nil {
			return err
		}
		body, failed := h.describeError(r, err)
		text, encodeErr := server.EncodeJSON(body)
		if encodeErr != nil {
			return encodeErr
		}
		if failed.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(failed.RetryAfter.Seconds())))
		}
		if failed.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		server.WriteRawJSON(w, failed.Status, text)
		return nil
	}
}

// describeError returns an error on the wire, and its response. An internal error's cause is in
// the log only.
func (h *handlers) describeError(r *http.Request, err error) (*errorBody, *server.Error) {
	own := (*requestError)(nil)
	if errors.As(err, &own) {
		body := &errorBody{errorObject{Message: own.text, Type: "invalid_request_error", Param: newOptional(own.param), Code: newOptional(own.code)}}
		return body, &server.Error{Status: own.status}
	}
	failed := h.LogError(r, err)
	body := &errorBody{errorObject{Message: failed.Detail, Type: "invalid_request_error"}}
	if failed.Detail == "" { // a list of what is wrong with the body
		body.Error.Message = err.Error()
	}
	switch {
	case failed.Status == http.StatusUnprocessableEntity:
		failed.Status = http.StatusBadRequest // as OpenAI's
	case failed.Status == http.StatusUnauthorized:
		body.Error.Code = newOptional("invalid_api_key")
	case failed.Status == http.StatusTooManyRequests:
		body.Error.Type, body.Error.Code = "rate_limit_error", newOptional("rate_limit_exceeded")
	case failed.Status >= http.StatusInternalServerError:
		body.Error.Type, body.Error.Code = "server_error", newOptional(failed.Code)
	}
	return body, failed
}

func newOptional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// maxShown limits what an error repeats from a request, in characters.
const maxShown = 100
