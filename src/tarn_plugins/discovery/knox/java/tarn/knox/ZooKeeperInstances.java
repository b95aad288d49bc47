package tarn.knox;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Follows the nodes of instances and fleets by watch.
 *
 * <p>A namespace is the path of the instances ({@code /services/triton/instances}), or the parent
 * of a path that ends so; the fleets' nodes are in {@code fleets} beside the instances' path.
 *
 * <p>One client and one view serve every topology with one ensemble and namespace: Knox makes new
 * managers with each deployment, and closes none.
 *
 * <p>{@code TreeCache} and not its successor, for that one needs ZooKeeper 3.6 on the servers. (Its
 * full name stands below because an import would warn of its deprecation.)
 */
@SuppressWarnings("deprecation")
final class ZooKeeperInstances implements InstancesURLManager.Instances {
  private static final Logger LOG = LoggerFactory.getLogger(ZooKeeperInstances.class);
  private static final Map<List<String>, ZooKeeperInstances> OPEN = new HashMap<>();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String INSTANCES = "instances";
  private static final String FLEETS = "fleets";
  private static final int SESSION_MS = 10_000;
  private static final int CONNECT_MS = 5_000;
  private static final int FIRST_LOOK_MS = 5_000;

  private final String namespace;
  private final LastGoodSet set = new LastGoodSet();
  private final CountDownLatch looks = new CountDownLatch(2);
  private volatile List<String> urls;

  private ZooKeeperInstances(String namespace) {
    this.namespace = namespace;
  }

  /** Returns the view of a namespace; whoever asks first waits some seconds for its first look. */
  static ZooKeeperInstances at(String ensemble, String namespace) {
    List<String> parts = new ArrayList<>(Arrays.asList(namespace.split("/")));
    parts.removeIf(String::isEmpty);
    String path = "/" + String.join("/", parts);
    ZooKeeperInstances found;
    synchronized (OPEN) {
      List<String> key = Arrays.asList(ensemble, path);
      found = OPEN.get(key);
      if (found == null) {
        found = new ZooKeeperInstances(path);
        found.open(ensemble);
        OPEN.put(key, found);
      }
    }
    found.waitForFirstLook();
    return found;
  }

  @Override
  public List<String> urls() {
    return urls;
  }

  private void open(String ensemble) {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(
            ensemble, SESSION_MS, CONNECT_MS, new ExponentialBackoffRetry(200, 10, 5_000));
    client.start();
    try {
      follow(client, namespace, 2);
      follow(client, parent(namespace) + "/" + FLEETS, 1);
    } catch (Exception error) { // what Curator declares
      client.close();
      throw new IllegalStateException(error);
    }
  }

  private void follow(CuratorFramework client, String path, int depth) throws Exception {
    org.apache.curator.framework.recipes.cache.TreeCache cache =
        org.apache.curator.framework.recipes.cache.TreeCache.newBuilder(client, path)
            .setMaxDepth(depth)
            .build();
    cache.getListenable().addListener((unused, event) -> hear(event));
    cache.start();
  }

  private void waitForFirstLook() {
    try {
      if (!looks.await(FIRST_LOOK_MS, TimeUnit.MILLISECONDS)) {
        LOG.warn("ZooKeeper has not answered yet about {}; it is asked further", namespace);
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private synchronized void hear(TreeCacheEvent event) {
    switch (event.getType()) {
      case NODE_ADDED:
      case NODE_UPDATED:
        read(event.getData().getPath(), event.getData().getData());
        break;
      case NODE_REMOVED:
        forget(event.getData().getPath());
        break;
      case INITIALIZED:
        looks.countDown();
        break;
      default: // the connection was lost or came back: what is known stands
        LOG.info("{}: {}", namespace, event.getType());
        return;
    }
    publish();
  }

  private void read(String path, byte[] data) {
    String text = data == null ? "" : new String(data, StandardCharsets.UTF_8).trim();
    try {
      if (isFleet(path)) {
        set.hear(path, word(text));
      } else if (isInstance(path)) {
        set.appear(name(path), url(text));
      }
    } catch (IOException | IllegalArgumentException error) {
      LOG.warn("{} is passed over: {}", path, error.getMessage());
    }
  }

  private void forget(String path) {
    if (isFleet(path)) {
      set.hear(path, null);
    } else if (isInstance(path)) {
      set.vanish(name(path));
    }
  }

  private void publish() {
    if (looks.getCount() > 0) {
      return; // half a look is not a smaller fleet
    }
    List<String> before = urls;
    List<String> found = new ArrayList<>(new LinkedHashSet<>(set.urls().values()));
    urls = found.isEmpty() && !set.isMeantEmpty() ? before : Collections.unmodifiableList(found);
    if (urls != null && !urls.equals(before)) {
      LOG.info("{}: {} instances: {}", namespace, urls.size(), urls);
    }
  }

  private boolean isFleet(String path) {
    return FLEETS.equals(name(parent(path)));
  }

  private boolean isInstance(String path) {
    String above = parent(path);
    if (above.equals(namespace)) {
      return !FLEETS.equals(name(path)) && !INSTANCES.equals(name(path));
    }
    return above.equals(namespace + "/" + INSTANCES);
  }

  private static LastGoodSet.Word word(String text) throws IOException {
    JsonNode node = JSON.readTree(text);
    JsonNode count = node == null ? null : node.get("count");
    if (count == null || !count.canConvertToInt()) {
      throw new IllegalArgumentException("a fleet's node needs a count");
    }
    List<String> nodes = null;
    if (node.path("nodes").size() > 0 || count.asInt() == 0) {
      nodes = new ArrayList<>();
      for (JsonNode one : node.path("nodes")) {
        nodes.add(one.asText());
      }
    }
    return new LastGoodSet.Word(count.asInt(), nodes);
  }

  private static String url(String text) throws IOException {
    String found = text.startsWith("{") ? JSON.readTree(text).path("url").asText() : text;
    String url = found.contains("://") ? found : "http://" + found;
    URI uri = URI.create(url);
    if (uri.getHost() == null || uri.getPort() < 0) {
      throw new IllegalArgumentException("host:port is needed, or JSON with a url");
    }
    return url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
  }

  private static String parent(String path) {
    return path.substring(0, Math.max(0, path.lastIndexOf('/')));
  }

  private static String name(String path) {
    return path.substring(path.lastIndexOf('/') + 1);
  }
}
