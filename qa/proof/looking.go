package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agenthost/internal/testdb"
)

// lookingRows runs each command that runs no app on older versions' databases, whose schema and
// rows must stay, and whose files must keep their bytes.
func lookingRows(ctx context.Context, s *sandbox) ([]row, error) {
	dir := filepath.Join(s.dir, "looking-"+s.name)
	other := "sqlite:///" + filepath.Join(dir, "other.db")
	old, err := testdb.NewOldDatabase(ctx, dir, s.url, other, func(ctx context.Context, args []string) (code int, out string) {
		return runProgram(ctx, s.lab, dir, args)
	})
	if err != nil {
		return nil, err
	}
	commands, versions := 0, 0
	var failures []error
	for version := old.Current - 1; version >= 1; version-- {
		// The short form has the latest version, the oldest one, and the oldest that is read.
		if !s.full && version != old.Current-1 && version != testdb.OldestRead && version != 1 {
			continue
		}
		if err := testdb.Downgrade(ctx, s.url, version); err != nil {
			return nil, err
		}
		versions++
		for _, c := range testdb.Commands() {
			if c.Use == testdb.Migrates {
				continue
			}
			commands++
			if err := old.CheckKept(ctx, c, version); err != nil {
				failures = append(failures, err)
			}
		}
	}
	firstFailure := ""
	if len(failures) > 0 {
		firstFailure = ", first " + failures[0].Error()
	}
	control := old.CheckMigrates(ctx, testdb.Command{Name: "db migrate", Args: "$DB"}, 1)
	return []row{{
		fmt.Sprintf("commands that only look %s: none changes the schema or the contents of a database of an older version", s.name),
		fmt.Sprintf("%d commands on %d older versions: %d changed it or failed%s; control, db migrate: changed it: %v",
			commands, versions, len(failures), firstFailure, control == nil),
		commands > 0 && len(failures) == 0 && control == nil,
	}}, control
}

// runProgram runs the program with arguments in a folder, and returns its exit status and its
// output.
func runProgram(ctx context.Context, l *lab, dir string, args []string) (code int, out string) {
	var b bytes.Buffer
	cmd := exec.CommandContext(ctx, l.bin, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader(""), &b, &b
	cmd.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), b.String()
}
