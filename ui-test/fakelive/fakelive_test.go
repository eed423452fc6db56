// Package fakelive_test runs the fake Live API as a process that the tests in a browser
// control.
package fakelive_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"agenthost/internal/fake/fakegemini"
)

// A command is one line of stdin. It applies to the newest connection.
type command struct {
	// Send is a message to the host.
	Send json.RawMessage `json:"send"`
	// Speak is how many messages to send, each with a 100 ms tone.
	Speak int `json:"speak"`
	// Close is a close code.
	Close int `json:"close"`
}

// A report is what the fake received on all connections. It is the answer to each command.
type report struct {
	Connections int      `json:"connections"`
	Handles     []string `json:"handles"`
	// Audio and Images count the messages, AudioBytes their samples.
	Audio      int            `json:"audio"`
	AudioBytes int            `json:"audioBytes"`
	AudioTypes map[string]int `json:"audioTypes"`
	Images     int            `json:"images"`
	StreamEnds int            `json:"streamEnds"`
	Texts      []string       `json:"texts"`
	Responses  []any          `json:"responses"`
	Error      string         `json:"error,omitempty"`
}

// TestMain serves the fake if ui-test/fake-live.mjs has started this process.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_LIVE") == "" {
		os.Exit(m.Run())
	}
	if err := serveFake(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveFake serves the fake Live API until stdin ends. It prints its URL, then a report for
// each command.
func serveFake() error {
	server := fakegemini.New()
	defer server.Close()
	server.HandleLive(acceptAndRead)
	fmt.Println("FAKE", server.URL())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var c command
		err := json.Unmarshal(in.Bytes(), &c)
		conns := server.LiveConns()
		if err == nil && len(conns) > 0 {
			err = c.execute(conns[len(conns)-1])
		}
		r := reportOf(conns)
		if err != nil {
			r.Error = err.Error()
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Println("REPORT", string(line))
	}
	return nil
}

// acceptAndRead accepts the setup, offers a handle, and records what arrives.
func acceptAndRead(c *fakegemini.LiveConn) {
	err := c.Accept(fmt.Sprintf("live-%d", c.Number))
	if err == nil {
		err = c.Send(fmt.Sprintf(`{"sessionResumptionUpdate":{"newHandle":"h%d","resumable":true}}`, c.Number))
	}
	for err == nil {
		_, err = c.Receive()
	}
}

func (c *command) execute(conn *fakegemini.LiveConn) error {
	if c.Send != nil {
		if err := conn.Send(string(c.Send)); err != nil {
			return err
		}
	}
	for i := range c.Speak {
		if err := conn.Send(fmt.Sprintf(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":%q}}]}}}`, tone(i))); err != nil {
			return err
		}
	}
	if c.Close != 0 {
		conn.Close(c.Close, "")
	}
	return nil
}

// tone returns 100 ms of 440 Hz at 24 kHz.
func tone(chunk int) string {
	const samples = 2400
	var bytes [2 * samples]byte
	for i := range samples {
		v := int16(6000 * math.Sin(2*math.Pi*440*float64(chunk*samples+i)/24000))
		bytes[2*i], bytes[2*i+1] = byte(v), byte(v>>8)
	}
	return base64.StdEncoding.EncodeToString(bytes[:])
}

// A received is a message from the host.
type received struct {
	Setup struct {
		SessionResumption struct{ Handle string }
	}
	RealtimeInput struct {
		MediaChunks    []blob
		Audio, Video   *blob
		AudioStreamEnd bool
		Text           string
	}
	ClientContent struct {
		Turns []struct{ Parts []struct{ Text string } }
	}
	ToolResponse struct {
		FunctionResponses []struct{ Response any }
	}
}

type blob struct {
	MimeType string
	Data     []byte
}

func reportOf(conns []*fakegemini.LiveConn) report {
	r := report{Connections: len(conns), AudioTypes: map[string]int{}}
	for _, conn := range conns {
		for _, frame := range conn.Frames() {
			text, err := json.Marshal(frame)
			var m received
			if err == nil {
				err = json.Unmarshal(text, &m)
			}
			if err != nil {
				r.Error = err.Error()
				continue
			}
			r.add(m, frame["setup"] != nil)
		}
	}
	return r
}

func (r *report) add(m received, isSetup bool) {
	if isSetup {
		r.Handles = append(r.Handles, m.Setup.SessionResumption.Handle)
	}
	chunks := m.RealtimeInput.MediaChunks
	for _, b := range []*blob{m.RealtimeInput.Audio, m.RealtimeInput.Video} {
		if b != nil {
			chunks = append(chunks, *b)
		}
	}
	for _, b := range chunks {
		if strings.HasPrefix(b.MimeType, "image/") {
			r.Images++
			continue
		}
		r.Audio++
		r.AudioBytes += len(b.Data)
		r.AudioTypes[b.MimeType]++
	}
	if m.RealtimeInput.AudioStreamEnd {
		r.StreamEnds++
	}
	if m.RealtimeInput.Text != "" {
		r.Texts = append(r.Texts, m.RealtimeInput.Text)
	}
	for _, turn := range m.ClientContent.Turns {
		for _, p := range turn.Parts {
			r.Texts = append(r.Texts, p.Text)
		}
	}
	for _, f := range m.ToolResponse.FunctionResponses {
		r.Responses = append(r.Responses, f.Response)
	}
}
