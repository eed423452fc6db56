package sqlstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(childDatabase); file != "" {
		os.Exit(appendForever(file))
	}
	goleak.VerifyTestMain(m)
}
