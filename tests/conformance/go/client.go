// A client written from the protos alone, with nothing but what protoc makes of them: it plans the
// sizes of a CSV-like list, then streams them to Pack and checks that each graph comes back once.
//
//	client ADDRESS < sizes
//
// where each line of sizes has nodes and edges of one graph. Prints packs and batches.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"

	ph "packhouse/v1"
)

const nodesLimit, edgesLimit, graphsLimit = 256, 1024, 64

func limits() *ph.Limits {
	return &ph.Limits{Capacities: []*ph.Capacity{
		{Component: "nodes", Rows: nodesLimit},
		{Component: "edges", Rows: edgesLimit},
		{Component: "graphs", Rows: graphsLimit},
	}}
}

func readSizes(in io.Reader) [][2]uint32 {
	var sizes [][2]uint32
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var size [2]uint32
		if _, err := fmt.Sscan(lines.Text(), &size[0], &size[1]); err != nil {
			log.Fatalf("line %d: %v", len(sizes)+1, err)
		}
		sizes = append(sizes, size)
	}
	return sizes
}

func encode(sizes [][2]uint32) []byte {
	rows := make([]byte, 0, 8*len(sizes))
	for _, size := range sizes {
		for _, count := range size {
			rows = binary.LittleEndian.AppendUint32(rows, count)
		}
	}
	return rows
}

// plan returns the number of packs of an optimized plan.
func plan(ctx context.Context, channel *grpc.ClientConn, sizes [][2]uint32) (uint64, error) {
	counts := map[[2]uint32]uint64{}
	for _, size := range sizes {
		counts[size]++
	}
	histogram := &ph.Histogram{Components: []string{"nodes", "edges"}}
	for size, count := range counts {
		histogram.Tuples = append(histogram.Tuples, encode([][2]uint32{size})...)
		histogram.Counts = binary.LittleEndian.AppendUint64(histogram.Counts, count)
	}
	response, err := ph.NewPlanningServiceClient(channel).Plan(ctx, &ph.PlanRequest{
		Source: &ph.PlanRequest_Histogram{Histogram: histogram},
		Limits: limits(),
	})
	if err != nil {
		return 0, err
	}
	return response.Best.Packs, nil
}

// pack returns the number of batches, after a check that they have every graph once, within limits.
func pack(ctx context.Context, channel *grpc.ClientConn, sizes [][2]uint32) (int, error) {
	stream, err := ph.NewPackingServiceClient(channel).Pack(ctx)
	if err != nil {
		return 0, err
	}
	requests := []*ph.PackRequest{
		{Message: &ph.PackRequest_Open{Open: &ph.PackOpen{
			Limits: limits(), Payload: ph.Payload_PAYLOAD_SIZES, LookAhead: 1024}}},
		{Message: &ph.PackRequest_Sizes{Sizes: &ph.SizeTable{
			NumGraphs: uint64(len(sizes)), Counts: encode(sizes)}}},
	}
	for _, request := range requests {
		if err := stream.Send(request); err != nil {
			return 0, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	batches := 0
	seen := make([]bool, len(sizes))
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		batch := response.GetBatch()
		if batch == nil {
			continue
		}
		batches++
		var nodes, edges uint64
		for at := 0; at < len(batch.GraphIds); at += 8 {
			id := binary.LittleEndian.Uint64(batch.GraphIds[at:])
			if id >= uint64(len(sizes)) || seen[id] {
				return 0, fmt.Errorf("graph %d is unknown, or came twice", id)
			}
			seen[id] = true
			nodes += uint64(sizes[id][0])
			edges += uint64(sizes[id][1])
		}
		if nodes > nodesLimit || edges > edgesLimit {
			return 0, fmt.Errorf("a batch of %d nodes and %d edges", nodes, edges)
		}
	}
	for id, came := range seen {
		if !came {
			return 0, fmt.Errorf("graph %d did not come", id)
		}
	}
	return batches, nil
}

func main() {
	sizes := readSizes(os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	channel, err := grpc.DialContext(ctx, os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	packs, err := plan(ctx, channel, sizes)
	if err != nil {
		log.Fatalf("Plan: %v", err)
	}
	batches, err := pack(ctx, channel, sizes)
	if err != nil {
		log.Fatalf("Pack: %v", err)
	}
	fmt.Printf("%d packs planned, %d batches packed\n", packs, batches)
}
