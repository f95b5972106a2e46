//go:build race

package batched

const raceDetector = true
