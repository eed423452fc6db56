// Command guest is a program that the tests run in the sandbox, and as a control outside. Its
// arguments are a command and its operands.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

func main() {
	if err := runCommand(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func runCommand(command string, args []string) error {
	switch command {
	case "copy":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "read":
		b, err := os.ReadFile(args[0])
		fmt.Printf("%s", b)
		return err
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o600)
	case "rename":
		return os.Rename(args[0], args[1])
	case "list":
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Println(e.Name(), e.IsDir())
		}
		return err
	case "environment":
		fmt.Println(len(os.Environ()) > 0)
		return nil
	case "link":
		return os.Symlink(args[0], args[1])
	case "dial":
		c, err := net.DialTimeout("tcp", args[0], time.Second)
		if err == nil {
			c.Close()
		}
		return err
	case "start":
		return exec.Command(os.Args[0], "environment").Run()
	}
	return useResources(command, args)
}

// useResources uses as much as the operand asks for.
func useResources(command string, args []string) error {
	count := 0
	if len(args) > 0 {
		count, _ = strconv.Atoi(args[0])
	}
	switch command {
	case "print":
		for range count {
			fmt.Print("x")
		}
		return nil
	case "allocate":
		b := make([]byte, count<<20)
		for i := range b {
			b[i] = 1
		}
		return nil
	case "fill":
		f, err := os.Create("big")
		for i := 0; i < count && err == nil; i++ {
			_, err = f.Write(make([]byte, 1<<20))
		}
		return err
	case "hide": // each file is deleted while it is open
		for range count {
			f, err := os.Create("hidden")
			if err == nil {
				_, err = f.Write(make([]byte, 1<<20))
			}
			if err == nil {
				err = os.Remove("hidden")
			}
			if err != nil {
				return err
			}
		}
		return nil
	case "create":
		for i := range count {
			if err := os.WriteFile(strconv.Itoa(i), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	case "open":
		if err := os.WriteFile("opened", nil, 0o600); err != nil {
			return err
		}
		for range count {
			if _, err := os.Open("opened"); err != nil {
				return err
			}
		}
		return nil
	case "open-folders":
		for range count {
			if _, err := os.Open("/tmp"); err != nil {
				return err
			}
		}
		return nil
	case "create-long": // a path in which all but the first character means nothing
		return createLong(count)
	case "spin":
		for {
		}
	case "sleep":
		time.Sleep(time.Hour)
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}
