// Package film records agenthost's output in stories, such as an app that is edited, and draws it as
// animated SVGs for the README and the docs. Output and its timing are real; typing is simulated.
package film

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// shop is the app that is edited.
//
//go:embed shop
var shop embed.FS

const (
	app  = "shop"
	file = app + "/root_agent.yaml"
	// readingTime is the pause after new output.
	readingTime = 1600 * time.Millisecond
)

// playStory performs a user's actions: chat, edit, chat again, save a mistake, and fix it.
func playStory(r *recorder) {
	r.runCommand("agenthost run "+app, "Talking to")
	r.sendLine("How much is the blue lamp?", "That is 121 euro.")

	r.editFile("args.net * ", "1.21", "1.25")
	r.saveFile("was reloaded")
	r.sendLine("And now?", "That is 125 euro.")

	r.editFile("1.25)", "", " + arg.net / 20")
	r.saveFile("was not reloaded")
	r.advanceClock(2 * readingTime)
	r.sendLine("Still there?", "That is 125 euro.")

	r.editFile("+ arg", "", "s")
	r.saveFile("was reloaded")
	r.sendLine("With shipping?", "That is 130 euro.")
	r.advanceClock(2 * readingTime)
}

// Record plays the story with the agenthost binary at path bin, in a temporary folder,
// and returns the recording as SVG.
func Record(ctx context.Context, bin string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "film")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, shop); err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(shop, file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := newRecorder(ctx, bin, dir, string(text))
	defer r.stopProcess()
	playStory(r)
	if r.err != nil {
		return nil, r.err
	}
	return r.drawSVG(), nil
}

func (r *recorder) filePath() string { return filepath.Join(r.dir, filepath.FromSlash(file)) }
