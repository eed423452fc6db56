package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func startEchoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// A proxy forwards data until a fault starts. New connections work after the fault.
func TestFaultyProxy(t *testing.T) {
	l, err := newFaultyProxy(&database{url: "x://user@" + startEchoServer(t) + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	roundTrip := func(c net.Conn) error {
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 5))
		return err
	}
	first := dial()
	if err := roundTrip(first); err != nil {
		t.Errorf("before the fault: %v", err)
	}
	if err := l.startFault(); err != nil {
		t.Fatal(err)
	}
	if err := roundTrip(first); err == nil {
		t.Error("an open connection still works during the fault")
	}
	if err := roundTrip(dial()); err == nil {
		t.Error("a new connection works during the fault")
	}
	if err := l.endFault(); err != nil {
		t.Fatal(err)
	}
	if err := roundTrip(dial()); err != nil {
		t.Errorf("after the fault: %v", err)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d fullDisk
	if err := d.startFault(); err != nil {
		t.Fatal(err)
	}
	_, full := f.WriteAt([]byte("x"), fullDiskSize)
	if err := d.endFault(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(full, syscall.EFBIG) {
		t.Errorf("writing to a full disk = %v", full)
	}
	if _, err := f.WriteAt([]byte("x"), fullDiskSize); err != nil {
		t.Errorf("writing after the fault = %v", err)
	}
}
