package tarn.knox;

import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.knox.gateway.ha.provider.HaServiceConfig;
import org.apache.knox.gateway.ha.provider.URLManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives Knox the instances of a fleet, as ZooKeeper has them at this moment.
 *
 * <p>Knox makes one for each topology whose HaProvider has parameters for the role, asks {@link
 * #supportsConfig}, then calls {@link #setConfig} and {@link #setURLs} in this order; it never
 * closes one. An exception from any of them takes a live topology to 503, so none leaves here.
 *
 * <p>Any thread may call any method.
 */
public final class InstancesURLManager implements URLManager {
  private static final Logger LOG = LoggerFactory.getLogger(InstancesURLManager.class);
  private static final String ROLE = "TRITON";
  private static final long AVOIDED_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Map<String, Long> avoidedUntil = new ConcurrentHashMap<>();
  private volatile Instances instances = Instances.NONE;
  private volatile List<String> written = Collections.emptyList();
  private volatile boolean balances = true;
  private int turn;

  @Override
  public boolean supportsConfig(HaServiceConfig config) {
    return config != null
        && ROLE.equalsIgnoreCase(config.getServiceName())
        && !blank(config.getZookeeperEnsemble())
        && !blank(config.getZookeeperNamespace());
  }

  @Override
  public void setConfig(HaServiceConfig config) {
    balances = config.isLoadBalancingEnabled();
    String ensemble = config.getZookeeperEnsemble().trim();
    String namespace = config.getZookeeperNamespace().trim();
    try {
      instances = ZooKeeperInstances.at(ensemble, namespace);
    } catch (RuntimeException | LinkageError error) {
      LOG.error("cannot follow {} in ZooKeeper {}; the URLs of the topology are used",
          namespace, ensemble, error);
    }
  }

  /** Keeps the URLs written in the topology: they serve until ZooKeeper has said anything. */
  @Override
  public void setURLs(List<String> urls) {
    written = urls == null ? Collections.emptyList() : new ArrayList<>(urls);
  }

  @Override
  public List<String> getURLs() {
    List<String> found = instances.urls();
    return new ArrayList<>(found == null ? written : found);
  }

  /**
   * Returns who gets the next request, or null when the fleet is empty.
   *
   * <p>With load balancing each question moves on by one. Knox itself moves on only after an
   * answer came ({@link #makeNextActiveURLAvailable}), so that requests that run side by side
   * would all go to one instance.
   */
  @Override
  public synchronized String getActiveURL() {
    List<String> healthy = healthy();
    if (healthy.isEmpty()) {
      return null;
    }
    String chosen = healthy.get(Math.floorMod(turn, healthy.size()));
    if (balances) {
      turn++;
    }
    return chosen;
  }

  @Override
  public synchronized void setActiveURL(String url) {
    int place = healthy().indexOf(url);
    if (place >= 0) {
      turn = place;
    }
  }

  @Override
  public synchronized void makeNextActiveURLAvailable() {
    if (!balances) {
      turn++;
    }
  }

  /** Leaves an instance alone for some seconds; the rest of the URL does not matter. */
  @Override
  public void markFailed(String url) {
    String address = address(url);
    for (String one : getURLs()) {
      if (address.equals(address(one))) {
        avoidedUntil.put(one, System.nanoTime() + AVOIDED_NANOS);
      }
    }
  }

  private List<String> healthy() {
    long now = System.nanoTime();
    avoidedUntil.values().removeIf(until -> until - now <= 0);
    List<String> all = getURLs();
    List<String> healthy = new ArrayList<>(all);
    healthy.removeAll(avoidedUntil.keySet());
    return healthy.isEmpty() ? all : healthy;
  }

  private static String address(String url) {
    try {
      URI uri = URI.create(url);
      return uri.getHost() + ":" + uri.getPort();
    } catch (IllegalArgumentException | NullPointerException error) {
      return "";
    }
  }

  /** Knox gives "" for what is not written. */
  private static boolean blank(String text) {
    return text == null || text.trim().isEmpty();
  }

  /** Who is there now. */
  interface Instances {
    Instances NONE = () -> null;

    /** Returns base URLs such as {@code http://host:8000}, or null while nothing is known. */
    List<String> urls();
  }
}
