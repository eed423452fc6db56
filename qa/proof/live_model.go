package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"agenthost/internal/fake/fakegemini"
)

// liveModelMode is the mode for the child that serves the fake Live API.
const liveModelMode = "live"

// runLiveModel serves the fake Live API until it is killed. It prints its URL.
func runLiveModel() {
	server := fakegemini.New()
	server.HandleLive(func(c *fakegemini.LiveConn) { newLiveModel(c).serveConn() })
	fmt.Println(server.URL())
	select {}
}

// A modelProcess is a child that serves the fake Live API.
type modelProcess struct {
	cmd *exec.Cmd
	url string
}

func startLiveModel(ctx context.Context, l *lab) (*modelProcess, error) {
	m := &modelProcess{cmd: exec.CommandContext(ctx, l.self, "child", liveModelMode)}
	m.cmd.Stderr, m.cmd.WaitDelay = l.progress, time.Second
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the fake model: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the fake model printed %q: %w", line, err), m.killProcess())
	}
	m.url = strings.TrimSpace(line)
	return m, nil
}

func (m *modelProcess) killProcess() error {
	if m.cmd.ProcessState != nil {
		return nil
	}
	err := m.cmd.Process.Kill()
	var failure *exec.ExitError
	if waitErr := m.cmd.Wait(); waitErr != nil && !errors.As(waitErr, &failure) {
		err = errors.Join(err, waitErr)
	}
	return err
}

// Turn kinds. The user's text is the turn's kind and tag, such as "call k1c2-t3.1"; the audio is
// the tag.
const (
	turnText  = "text"  // is answered
	turnAudio = "audio" // is transcribed and answered
	turnCall  = "call"  // calls a tool before the answer
	turnWait  = "wait"  // is answered halfway: the next turn interrupts it
	turnLeave = "leave" // is answered, and then the model announces that its connection ends
)

// answerHalves returns the two chunks that answer a turn.
func answerHalves(tag string) (first, second string) {
	return "Answer " + tag + ": first half,", " second half."
}

func fullAnswer(tag string) string {
	first, second := answerHalves(tag)
	return first + second
}

func callID(tag string) string { return "call-" + tag }

var tagPattern = regexp.MustCompile(`[a-z]+\d+c\d+-t\d+\.\d+`)

// A liveModel is the fake's side of one connection. Its state comes from this connection's
// messages: like a model whose handle is from the end of a turn, it lacks what the ended connection
// had received since.
type liveModel struct {
	*fakegemini.LiveConn
	// atOnce is how 3.x models behave: a call does not complete the turn. counts reports that
	// handles count the consumed messages.
	atOnce, counts bool
	// seeds reports that the next message is the session's history.
	seeds    bool
	lastTurn string // of the history, if it is the user's
	consumed int
	handles  int
	speech   string            // the audio's tag so far
	speaking string            // tag for the answer that waits for an interruption
	open     map[string]string // tags by ID for the calls that wait for a response
	err      error             // from sending
}

func newLiveModel(c *fakegemini.LiveConn) *liveModel {
	name, _ := c.Setup["model"].(string)
	resumption, _ := c.Setup["sessionResumption"].(map[string]any)
	history, _ := c.Setup["historyConfig"].(map[string]any)
	return &liveModel{
		LiveConn: c, atOnce: strings.Contains(name, "gemini-3."), counts: resumption["transparent"] == true,
		seeds: history["initialHistoryInClientContent"] == true, open: map[string]string{},
	}
}

// serveConn accepts the setup and answers until the connection ends. A new conversation has a
// handle at once.
func (m *liveModel) serveConn() {
	m.err = m.Accept(fmt.Sprintf("live-%d", m.Number))
	if resumption, _ := m.Setup["sessionResumption"].(map[string]any); resumption["handle"] == nil {
		m.sendHandle()
	}
	for m.err == nil {
		frame, err := m.Receive()
		if err != nil {
			return
		}
		m.consumed++
		if err := m.receiveFrame(frame); err != nil {
			m.Close(1008, err.Error())
			return
		}
	}
}

// A modelInput is a message from the host.
type modelInput struct {
	RealtimeInput struct {
		MediaChunks    []modelBlob
		Audio          *modelBlob
		AudioStreamEnd bool
		Text           string
	}
	ClientContent *struct {
		Turns []struct {
			Role  string
			Parts []struct{ Text string }
		}
	}
	ToolResponse struct {
		FunctionResponses []struct{ ID string }
	}
}

type modelBlob struct{ Data string }

func (m *liveModel) receiveFrame(frame map[string]any) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	var in modelInput
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if in.RealtimeInput.Audio != nil {
		in.RealtimeInput.MediaChunks = append(in.RealtimeInput.MediaChunks, *in.RealtimeInput.Audio)
	}
	for _, chunk := range in.RealtimeInput.MediaChunks {
		data, err := base64.StdEncoding.DecodeString(chunk.Data)
		if err != nil {
			return err
		}
		m.speech += strings.TrimRight(string(data), " ")
	}
	if in.RealtimeInput.AudioStreamEnd {
		m.answerSpeech()
	}
	if in.RealtimeInput.Text != "" {
		m.answerText(in.RealtimeInput.Text)
	}
	if in.ClientContent != nil && len(in.ClientContent.Turns) > 0 {
		last := in.ClientContent.Turns[len(in.ClientContent.Turns)-1]
		if m.receiveTurns(last.Role, last.Parts[0].Text) {
			return nil
		}
	}
	for _, r := range in.ToolResponse.FunctionResponses {
		tag, ok := m.open[r.ID]
		if !ok {
			return fmt.Errorf("unknown function call %s", r.ID)
		}
		delete(m.open, r.ID)
		m.answerTurn(tag)
	}
	return nil
}

// receiveTurns answers a user turn. It only stores the session's history.
func (m *liveModel) receiveTurns(role, text string) bool {
	if m.seeds {
		m.seeds = false
		if role == "user" {
			m.lastTurn = text
		}
		return true
	}
	m.answerText(text)
	return false
}

// answerSpeech answers the audio so far. Audio whose beginning is missing has no tag, and no
// answer.
func (m *liveModel) answerSpeech() {
	tag := tagPattern.FindString(m.speech)
	m.speech = ""
	if tag == "" {
		return
	}
	m.stopSpeaking()
	if m.atOnce { // whole transcripts
		m.sendMessage(`{"serverContent":{"inputTranscription":{"text":%q}}}`, "spoken "+tag)
	} else {
		m.sendMessage(`{"serverContent":{"inputTranscription":{"text":"spoken "}}}`)
		m.sendMessage(`{"serverContent":{"inputTranscription":{"text":%q}}}`, tag)
	}
	m.answerTurn(tag)
}

// answerText answers text. Other text is a request to continue the
// history.
func (m *liveModel) answerText(text string) {
	m.stopSpeaking()
	if !tagPattern.MatchString(text) {
		text, m.lastTurn = m.lastTurn, ""
	}
	kind, _, _ := strings.Cut(text, " ")
	tag := tagPattern.FindString(text)
	switch {
	case tag == "":
		m.completeTurn()
	case kind == turnCall:
		m.callTool(tag)
	case kind == turnWait:
		m.speaking = tag
		first, _ := answerHalves(tag)
		m.sendAudio()
		m.sendTranscript(first)
	case kind == turnLeave:
		m.answerTurn(tag)
		m.sendMessage(`{"goAway":{"timeLeft":"10s"}}`)
	default:
		m.answerTurn(tag)
	}
}

func (m *liveModel) callTool(tag string) {
	m.open[callID(tag)] = tag
	m.sendMessage(`{"toolCall":{"functionCalls":[{"id":%q,"name":"record","args":{"tag":%q}}]}}`, callID(tag), tag)
	if !m.atOnce {
		m.sendMessage(`{"serverContent":{"turnComplete":true}}`)
	}
}

// stopSpeaking ends an answer that the user has interrupted.
func (m *liveModel) stopSpeaking() {
	if m.speaking == "" {
		return
	}
	m.speaking = ""
	m.sendMessage(`{"serverContent":{"interrupted":true}}`)
	m.completeTurn()
}

// answerTurn speaks the answer.
func (m *liveModel) answerTurn(tag string) {
	first, second := answerHalves(tag)
	m.sendAudio()
	m.sendTranscript(first)
	m.sendAudio()
	m.sendTranscript(second)
	m.sendMessage(`{"serverContent":{"generationComplete":true}}`)
	m.completeTurn()
}

func (m *liveModel) completeTurn() {
	m.sendMessage(`{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":10,"responseTokenCount":5,"totalTokenCount":15}}`)
	m.sendHandle()
}

// sendHandle sends a handle for the state after all messages so far.
func (m *liveModel) sendHandle() {
	m.handles++
	index := ""
	if m.counts {
		index = fmt.Sprintf(`,"lastConsumedClientMessageIndex":"%d"`, m.consumed)
	}
	m.sendMessage(`{"sessionResumptionUpdate":{"newHandle":"handle-%d-%d","resumable":true%s}}`, m.Number, m.handles, index)
}

func (m *liveModel) sendTranscript(text string) {
	m.sendMessage(`{"serverContent":{"outputTranscription":{"text":%q}}}`, text)
}

func (m *liveModel) sendAudio() {
	m.sendMessage(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":%q}}]}}}`, strings.Repeat("A", 1280))
}

// sendMessage sends a message, unless one before it could not be sent.
func (m *liveModel) sendMessage(format string, values ...any) {
	if m.err == nil {
		m.err = m.Send(fmt.Sprintf(format, values...))
	}
}
